// Canonical text of a case. Fields in a fixed order; optional ones only where they differ from their default.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cases/case.hpp"
#include "cases/lists.hpp"
#include "cases/names.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {
namespace {

template <class T>
std::string list_text(const std::vector<T>& list) {
  return print_list(std::vector<std::int64_t>(list.begin(), list.end()));
}

std::string_view layout_word(ExpertLayout l) { return words::expert_layouts[static_cast<std::size_t>(l)]; }

std::string dimensions(const LayerCase& c) {
  return fmt::format("n={} H={} F={} R={} S={} layout={}", c.d.n, c.d.H, c.d.F, c.d.R, c.d.S,
                     layout_word(c.layout));
}

std::string put_text(const Put& p) {
  return fmt::format("{}@{}:{}", words::puts[static_cast<std::size_t>(p.what)], p.tensor,
                     fmt::join(p.index, ":"));
}

// What follows the fields of the kind: fill, put, schedule, seed.
std::string contents(const LayerCase& c) {
  std::string text = fmt::format(" fill={}", words::fills[static_cast<std::size_t>(c.fill)]);
  for (std::size_t i = 0; i < c.put.size(); ++i) text += (i == 0 ? " put=" : ",") + put_text(c.put[i]);
  if (c.schedule != 0) text += fmt::format(" schedule={}", c.schedule);
  return text + fmt::format(" seed={}", c.seed);
}

std::string types(const LayerCase& c, bool with_w13) {
  std::string text;
  if (with_w13) text += fmt::format(" w13={}", words::w13_layouts[static_cast<std::size_t>(c.w13)]);
  text += fmt::format(" type={}", element_name(c.type));
  if (c.gammas != c.type) text += fmt::format(" gammas={}", element_name(c.gammas));
  return text + fmt::format(" ranks={}", list_text(c.ranks));
}

std::string buffer_text(const BufferCase& b) {
  std::string text = b.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(b.shape, "x"));
  if (auto e = element_from_dl(b.dtype); !e)
    text += fmt::format("/type={}.{}.{}", b.dtype.code, b.dtype.bits, b.dtype.lanes);
  else if (*e != Element::bf16)
    text += fmt::format("/type={}", element_name(*e));
  if (b.strides)
    text += b.strides->empty() ? "/strides=scalar" : fmt::format("/strides={}", fmt::join(*b.strides, "x"));
  if (b.device.device_type != kDLCPU || b.device.device_id != 0)
    text += fmt::format("/device={}.{}", static_cast<std::int64_t>(b.device.device_type), b.device.device_id);
  if (b.address) text += fmt::format("/at={}", *b.address);
  if (b.byte_offset != 0) text += fmt::format("/offset={}", b.byte_offset);
  return text;
}

std::string step_text(const Step& s) {
  using Kind = Step::Kind;
  const std::string_view name = words::steps[static_cast<std::size_t>(s.kind)];
  switch (s.kind) {
    case Kind::bind:
    case Kind::rebind_other:
    case Kind::rebind_invalid:
    case Kind::rebind_strided:
      return fmt::format("{}:{}", name, s.seed);
    case Kind::write:
    case Kind::load:
      return fmt::format("{}:{}:{}:{}", name, s.slot, s.r, s.seed);
    case Kind::unload:
      return fmt::format("{}:{}", name, s.slot);
    case Kind::update:
      return fmt::format("{}:{}", name, !s.ids ? "all" : s.ids->empty() ? "none" : list_text(*s.ids));
    case Kind::forward:
      return fmt::format("{}:{}:{}", name, s.slots.empty() ? "none" : list_text(s.slots), s.seed);
  }
  return "";
}

struct Printer {
  std::string operator()(const LayoutCase& c) const {
    std::string text = fmt::format("layout n={}", c.n);
    if (c.H != SINKTRAP_ANY) text += fmt::format(" H={}", c.H);
    if (c.F != SINKTRAP_ANY) text += fmt::format(" F={}", c.F);
    text += fmt::format(" profile={}", words::profiles[static_cast<std::size_t>(c.profile)]);
    for (std::size_t i = 0; i < c.buffers.size(); ++i)
      text += fmt::format(" {}={}", buffer_name(static_cast<std::int32_t>(i)), buffer_text(c.buffers[i]));
    return text;
  }
  std::string operator()(const ForwardCase& c) const {
    std::string text = fmt::format("forward T={} {}{}", c.T(), dimensions(c.layer), types(c.layer, true));
    if (!c.slots.empty()) text += fmt::format(" slots={}", list_text(c.slots));
    if (c.tp != 1) text += fmt::format(" tp={}", c.tp);
    return text + contents(c.layer);
  }
  std::string operator()(const StateCase& c) const {
    std::vector<std::string> steps;
    for (const Step& s : c.steps) steps.push_back(step_text(s));
    return fmt::format("state {}{}{} steps={}", dimensions(c.layer), types(c.layer, true), contents(c.layer),
                       fmt::join(steps, ";"));
  }
  std::string operator()(const PackCase& c) const {
    std::string text =
        fmt::format("pack {}{} slot={} r={}", dimensions(c.layer), types(c.layer, false), c.slot, c.r);
    if (c.tp != 1) text += fmt::format(" tp={} tp_rank={}", c.tp, c.tp_rank);
    return text +
           fmt::format(" factors={} scaling={}", words::factors[static_cast<std::size_t>(c.factors)],
                       static_cast<float>(c.scaling)) +
           contents(c.layer);
  }
  std::string operator()(const ShardCase& c) const {
    return fmt::format("shard {}{} tp={}{}", dimensions(c.layer), types(c.layer, false), c.tp,
                       contents(c.layer));
  }
};

}  // namespace

bool BufferCase::operator==(const BufferCase& o) const {
  return shape == o.shape && dtype.code == o.dtype.code && dtype.bits == o.dtype.bits &&
         dtype.lanes == o.dtype.lanes && strides == o.strides && device.device_type == o.device.device_type &&
         device.device_id == o.device.device_id && address == o.address && byte_offset == o.byte_offset;
}

std::string_view case_kind(const Case& c) { return words::kinds[c.index()]; }

std::string print_case(const Case& c) { return std::visit(Printer{}, c); }

}  // namespace sinktrap
