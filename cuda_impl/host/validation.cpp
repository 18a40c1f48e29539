#include "cuda_impl/host/validation.hpp"

#include <algorithm>
#include <memory>

#include "cuda_impl/host/device_buffer.hpp"
#include "cuda_impl/host/tensors.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// Layouts in one launch. A record has about 450 bytes: on the executor a chunk stays in a level-2 cache of 1
// MiB; a GPU gets more at once to fill it.
constexpr std::int64_t kChunk = SINKTRAP_ON_GPU ? 65536 : 1024;

void flatten(const DLTensor& t, FlatBuffer& flat) {
  // A missing shape has no axes; another number of axes is reported as it stands, and nothing else is looked
  // at.
  flat.ndim = t.ndim == 4 && t.shape == nullptr ? 0 : t.ndim;
  flat.has_strides = t.strides != nullptr;
  if (flat.ndim == 4) {
    std::copy(t.shape, t.shape + 4, flat.extent);
    if (t.strides != nullptr) std::copy(t.strides, t.strides + 4, flat.stride);
  }
  flat.type = encode_type(t.dtype);
  flat.device = encode_device(t.device);
  flat.address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
}

// Kept between calls: a suite judges millions of layouts.
struct Workspace {
  std::unique_ptr<FlatLayout[]> flat;
  DeviceBuffer layouts, verdicts;
  std::int64_t capacity = 0;

  void reserve(std::int64_t count) {
    if (count <= capacity) return;
    flat = std::make_unique<FlatLayout[]>(static_cast<std::size_t>(count));
    layouts.reserve(static_cast<std::uint64_t>(count) * sizeof(FlatLayout));
    verdicts.reserve(static_cast<std::uint64_t>(count) * sizeof(sinktrap_verdict));
    capacity = count;
  }
};

}  // namespace

void flatten(const sinktrap_layout& layout, FlatLayout& flat) {
  flat.n = layout.n_shared_experts;
  flat.H = layout.hidden_size;
  flat.F = layout.intermediate_size;
  flat.shapes_only = (layout.flags & SINKTRAP_SHAPES_ONLY) != 0;
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) flatten(layout.buffers[b], flat.buffers[b]);
}

sinktrap_layout layout_of(std::int64_t n, std::int64_t H, std::int64_t F,
                          const DLTensor buffers[SINKTRAP_BUFFER_COUNT]) {
  sinktrap_layout layout{};
  layout.n_shared_experts = n;
  layout.hidden_size = H;
  layout.intermediate_size = F;
  std::copy(buffers, buffers + SINKTRAP_BUFFER_COUNT, layout.buffers);
  return layout;
}

void validate_layouts(const sinktrap_layout* layouts, std::int64_t count, std::int32_t profile,
                      sinktrap_verdict* verdicts) {
  static thread_local Workspace work;
  while (count > 0) {
    const std::int64_t chunk = std::min(count, kChunk);
    work.reserve(chunk);
    for (std::int64_t i = 0; i < chunk; ++i) flatten(layouts[i], work.flat[static_cast<std::size_t>(i)]);
    require_device(device_write(work.layouts.get(), work.flat.get(),
                                static_cast<std::uint64_t>(chunk) * sizeof(FlatLayout)));
    auto* judged = static_cast<sinktrap_verdict*>(work.verdicts.get());
    require_device(judge_layouts(static_cast<const FlatLayout*>(work.layouts.get()), chunk, profile, judged));
    require_device(
        device_read(verdicts, judged, static_cast<std::uint64_t>(chunk) * sizeof(sinktrap_verdict)));
    layouts += chunk;
    verdicts += chunk;
    count -= chunk;
  }
}

sinktrap_verdict validate_buffers(std::int64_t n, std::int64_t H, std::int64_t F,
                                  const DLTensor buffers[SINKTRAP_BUFFER_COUNT]) {
  const sinktrap_layout layout = layout_of(n, H, F, buffers);
  sinktrap_verdict verdict{};
  validate_layouts(&layout, 1, SINKTRAP_PROFILE_STRICT, &verdict);
  return verdict;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
