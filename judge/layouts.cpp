#include "judge/layouts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "judge/phase.hpp"
#include "judge/status.hpp"
#include "judge/transcript.hpp"
#include "reference/image.hpp"
#include "reference/validate.hpp"

namespace sinktrap {
namespace {

sinktrap_layout describe(const LayoutCase& c) {
  sinktrap_layout l{};
  l.n_shared_experts = c.n;
  l.hidden_size = c.H;
  l.intermediate_size = c.F;
  if (!c.buffers[0].address) l.flags = SINKTRAP_SHAPES_ONLY;
  for (std::size_t i = 0; i < c.buffers.size(); ++i) {
    const BufferCase& b = c.buffers[i];
    DLTensor& t = l.buffers[i];
    // The addresses are only looked at, never followed.
    t.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(b.address.value_or(0)));
    t.device = b.device;
    t.ndim = static_cast<std::int32_t>(b.shape.size());
    t.dtype = b.dtype;
    t.shape = const_cast<std::int64_t*>(b.shape.data());
    t.strides = b.strides ? const_cast<std::int64_t*>(b.strides->data()) : nullptr;
    t.byte_offset = b.byte_offset;
  }
  return l;
}

}  // namespace

LayoutBatch::LayoutBatch(std::span<const LayoutCase> cases) {
  layouts_.reserve(cases.size());
  for (const LayoutCase& c : cases) layouts_.push_back(describe(c));
}

std::vector<Verdict> validate(const Implementation& implementation, std::span<const LayoutCase> cases,
                              std::int32_t profile) {
  const LayoutBatch batch(cases);
  // A verdict that is not written keeps a code that no implementation may return.
  std::vector<Verdict> verdicts(cases.size(), Verdict{-1, -1, -1, 0, 0, 0});
  const Phase phase("validate");
  const auto code = implementation.table().validate(
      batch.layouts().data(), static_cast<std::int64_t>(cases.size()), profile, verdicts.data());
  if (code != SINKTRAP_OK)
    stop(Status::failed,
         fmt::format("validate returned {}: {}", code_name(code), implementation.last_error()));
  for (const Verdict& v : verdicts) Transcript::record("validate", v);
  return verdicts;
}

Verdict reference_verdict(const LayoutCase& c, std::int32_t profile) {
  return reference::validate(describe(c), profile);
}

bool in_image(const LayoutCase& c) {
  reference::Shapes shapes{};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (c.buffers[i].shape.size() != 4) return false;
    std::copy_n(c.buffers[i].shape.begin(), 4, shapes[i].begin());
  }
  reference::ImageOf of;
  of.n = c.n;
  of.H = c.H;
  of.F = c.F;
  of.element_bytes = reference::dtype_bytes(c.buffers[0].dtype);
  return reference::in_image(shapes, of);
}

LayoutCase valid_layout(const Dimensions& d, ExpertLayout layout) {
  const std::int64_t outer = layout == ExpertLayout::shared ? 1 : d.n;
  LayoutCase c;
  c.n = d.n;
  c.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape = {d.S, outer, 2 * d.R, d.H};
  c.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_B].shape = {d.S, d.n, 2 * d.F, d.R};
  c.buffers[SINKTRAP_BUFFER_DOWN_LORA_A].shape = {d.S, d.n, d.R, d.F};
  c.buffers[SINKTRAP_BUFFER_DOWN_LORA_B].shape = {d.S, outer, d.H, d.R};
  return c;
}

}  // namespace sinktrap
