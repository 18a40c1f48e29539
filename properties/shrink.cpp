#include "properties/shrink.hpp"

#include <algorithm>

#include "judge/layouts.hpp"
#include "properties/neighbours.hpp"

namespace sinktrap {
namespace {

// Values to try in place of an extent, smallest first.
std::vector<std::int64_t> smaller_extents(std::int64_t v, std::int64_t low) {
  std::vector<std::int64_t> list;
  if (v <= low) return list;  // extents of layouts may be anything, the smallest int64 too
  for (const std::int64_t to : {low, low + 1, v / 2, v - 1})
    if (to >= low && to < v && std::find(list.begin(), list.end(), to) == list.end()) list.push_back(to);
  return list;
}

// Collects candidates that differ from the original.
template <class C>
class Candidates {
 public:
  explicit Candidates(const C& from) : from_(from) {}
  template <class Edit>
  void add(Edit&& edit) {
    C c = from_;
    edit(c);
    if (!(c == from_)) list_.emplace_back(std::move(c));
  }
  std::vector<Case> take() { return std::move(list_); }

 private:
  const C& from_;
  std::vector<Case> list_;
};

// Steps that every case with a layer has.
template <class C>
void layer_steps(Candidates<C>& out, const C& from) {
  const LayerCase& l = from.layer;
  const auto extent = [&](std::int64_t Dimensions::*field, std::int64_t low) {
    for (const std::int64_t to : smaller_extents(l.d.*field, low))
      out.add([&](C& c) {
        c.layer.d.*field = to;
        repair(c.layer);
        repair(c);
      });
  };
  extent(&Dimensions::n, 1);
  extent(&Dimensions::H, 1);
  extent(&Dimensions::F, 1);
  extent(&Dimensions::R, 1);
  extent(&Dimensions::S, 1);
  for (std::size_t s = 0; s < l.ranks.size() && s < 16; ++s)
    for (const std::int64_t to : smaller_extents(l.ranks[s], 0))
      out.add([&](C& c) {
        c.layer.ranks[s] = to;
        repair(c);
      });
  out.add([](C& c) { c.layer.put.clear(); });
  out.add([](C& c) {
    if (!c.layer.put.empty()) c.layer.put.pop_back();
  });
  out.add([](C& c) { c.layer.layout = ExpertLayout::shared; });
  out.add([](C& c) { c.layer.w13 = SINKTRAP_W13_INTERLEAVED; });
  out.add([](C& c) { c.layer.gammas = c.layer.type; });
  out.add([](C& c) { c.layer.type = c.layer.gammas = Element::bf16; });
  out.add([](C& c) { c.layer.schedule = 0; });
  for (const std::uint64_t seed : {0ull, 1ull, 2ull, 3ull})
    if (seed < l.seed) out.add([&](C& c) { c.layer.seed = seed; });
}

std::vector<Case> smaller(const ForwardCase& from) {
  Candidates<ForwardCase> out(from);
  const std::size_t T = from.slots.size();
  const auto keep = [&](std::size_t first, std::size_t count) {
    out.add([&](ForwardCase& c) {
      c.layer.put.clear();
      c.slots.assign(from.slots.begin() + static_cast<std::ptrdiff_t>(first),
                     from.slots.begin() + static_cast<std::ptrdiff_t>(first + count));
    });
  };
  keep(0, 0);
  if (T > 1) {
    keep(0, T / 2);
    keep(T / 2, T - T / 2);
    for (std::size_t t = 0; t < T && t < 16; ++t) keep(t, 1);
    keep(0, T - 1);
  }
  layer_steps(out, from);
  for (std::size_t t = 0; t < T && t < 16; ++t) {
    out.add([&](ForwardCase& c) { c.slots[t] = -1; });
    if (from.slots[t] > 0) out.add([&](ForwardCase& c) { c.slots[t] = 0; });
  }
  out.add([](ForwardCase& c) { c.tp = 1; });
  for (const std::int64_t to : smaller_extents(from.tp, 2))
    if (from.layer.d.F % to == 0) out.add([&](ForwardCase& c) { c.tp = to; });
  return out.take();
}

std::vector<Case> smaller(const PackCase& from) {
  Candidates<PackCase> out(from);
  out.add([](PackCase& c) {
    c.tp = 1;
    c.tp_rank = 0;
  });
  layer_steps(out, from);
  for (const std::int64_t to : smaller_extents(from.r, 0)) out.add([&](PackCase& c) { c.r = to; });
  out.add([](PackCase& c) { c.scaling = 1.0; });
  out.add([](PackCase& c) { c.factors = Factors::separate; });
  out.add([](PackCase& c) { c.slot = 0; });
  for (const std::int64_t to : smaller_extents(from.tp, 1))
    out.add([&](PackCase& c) {
      c.tp = to;
      repair(c);
    });
  return out.take();
}

std::vector<Case> smaller(const ShardCase& from) {
  Candidates<ShardCase> out(from);
  layer_steps(out, from);
  for (const std::int64_t to : smaller_extents(from.tp, 1)) out.add([&](ShardCase& c) { c.tp = to; });
  return out.take();
}

std::vector<Case> smaller(const StateCase& from) {
  Candidates<StateCase> out(from);
  const auto& steps = from.steps;
  if (steps.size() > 2) {
    out.add([](StateCase& c) { c.steps.resize(c.steps.size() / 2); });
    out.add([](StateCase& c) {
      c.steps.erase(c.steps.begin(), c.steps.begin() + static_cast<std::ptrdiff_t>(c.steps.size() / 2));
    });
  }
  if (steps.size() > 1)
    for (std::size_t i = steps.size(); i-- > 0;)
      out.add([&](StateCase& c) { c.steps.erase(c.steps.begin() + static_cast<std::ptrdiff_t>(i)); });
  layer_steps(out, from);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    if (s.slots.size() > 1) {
      out.add([&](StateCase& c) { c.steps[i].slots.resize(1); });
      out.add([&](StateCase& c) { c.steps[i].slots.assign(1, s.slots.back()); });
    }
    if (s.ids && s.ids->size() > 1) out.add([&](StateCase& c) { c.steps[i].ids->resize(1); });
    for (const std::int64_t to : smaller_extents(s.r, 0)) out.add([&](StateCase& c) { c.steps[i].r = to; });
    if (s.slot > 0) out.add([&](StateCase& c) { c.steps[i].slot = 0; });
    if (s.seed > 1) out.add([&](StateCase& c) { c.steps[i].seed = s.seed % 2; });
  }
  return out.take();
}

std::vector<Case> smaller(const LayoutCase& from) {
  Candidates<LayoutCase> out(from);
  for (std::size_t b = 0; b < from.buffers.size(); ++b) {
    const BufferCase& buffer = from.buffers[b];
    out.add([&](LayoutCase& c) { c.buffers[b].strides.reset(); });
    out.add([&](LayoutCase& c) { c.buffers[b].dtype = dl_type(Element::bf16); });
    out.add([&](LayoutCase& c) { c.buffers[b].device = {kDLCPU, 0}; });
    out.add([&](LayoutCase& c) { c.buffers[b].byte_offset = 0; });
    for (std::size_t axis = 0; axis < buffer.shape.size(); ++axis) {
      const std::int64_t v = buffer.shape[axis];
      for (const std::int64_t to : smaller_extents(v, 1))
        out.add([&](LayoutCase& c) { c.buffers[b].shape[axis] = to; });
      if (v < -1) out.add([&](LayoutCase& c) { c.buffers[b].shape[axis] = -1; });
    }
  }
  out.add([](LayoutCase& c) {
    for (BufferCase& b : c.buffers) b.address.reset();
  });
  // The same extent on all axes that share it, so that a valid layout stays valid on the way down.
  std::vector<std::int64_t> values;
  for (const BufferCase& b : from.buffers)
    for (const std::int64_t v : b.shape)
      if (v > 1 && std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
  for (const std::int64_t v : values)
    for (const std::int64_t to : smaller_extents(v, 1))
      out.add([&](LayoutCase& c) {
        for (BufferCase& b : c.buffers) std::replace(b.shape.begin(), b.shape.end(), v, to);
        if (c.n == v) c.n = to;
      });
  // Smaller valid layouts of the same kind of extents.
  const auto& a = from.buffers[0].shape;
  const auto& down_a = from.buffers[2].shape;
  if (a.size() == 4 && down_a.size() == 4 && in_image(from)) {
    const Dimensions d{from.n, a[3], down_a[3], down_a[2], a[0]};
    const ExpertLayout layout = a[1] == 1 ? ExpertLayout::shared : ExpertLayout::per_expert;
    for (std::int64_t Dimensions::*field :
         {&Dimensions::n, &Dimensions::H, &Dimensions::F, &Dimensions::R, &Dimensions::S})
      for (const std::int64_t to : smaller_extents(d.*field, 1))
        out.add([&](LayoutCase& c) {
          Dimensions smaller_d = d;
          smaller_d.*field = to;
          const LayoutCase v = valid_layout(smaller_d, layout);
          c.n = v.n;
          for (std::size_t b = 0; b < c.buffers.size(); ++b) c.buffers[b].shape = v.buffers[b].shape;
        });
  }
  out.add([](LayoutCase& c) { c.H = c.F = SINKTRAP_ANY; });
  return out.take();
}

}  // namespace

std::vector<Case> smaller_cases(const Case& c) {
  return std::visit([](const auto& typed) { return smaller(typed); }, c);
}

}  // namespace sinktrap
