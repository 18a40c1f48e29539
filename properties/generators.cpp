#include "properties/generators.hpp"

#include <rapidcheck.h>

#include <algorithm>

#include "judge/layouts.hpp"
#include "properties/shrink.hpp"

namespace sinktrap {
namespace {

using rc::Gen;
namespace gen = rc::gen;

std::int64_t pick(std::int64_t low, std::int64_t high) { return *gen::inRange<std::int64_t>(low, high + 1); }
bool one_in(int n) { return pick(1, n) == 1; }
std::uint64_t any_seed() { return static_cast<std::uint64_t>(pick(0, INT32_MAX)); }

// An extent up to `top`: the smallest ones, any, and the edges of the usual tiles.
std::int64_t extent(std::int64_t top) {
  if (top <= 1 || one_in(6)) return 1;
  if (one_in(3)) {
    const std::int64_t edge = std::int64_t{8} << pick(0, 4);
    const std::int64_t v = edge + pick(-1, 1);
    if (v <= top) return v;
  }
  return pick(1, std::max<std::int64_t>(2, one_in(2) ? top / 4 : top));
}

struct Sizes {
  std::int64_t tokens, n, H, F, R, S;
};
// Extents grow with the size; at 100 a case holds all tile edges up to 129 and costs a millisecond or so.
Sizes sizes(int size) {
  const std::int64_t s = std::clamp(size, 0, 100);
  return {2 + s / 5, 2 + s / 40, 4 + s * 5 / 4, 3 + s * 3 / 4, 2 + s / 4, 2 + s / 25};
}

// Nine times in ten all extents differ, so that no transpose is legal by accident (S may repeat).
Dimensions dimensions(int size, std::int64_t low_n = 1) {
  const Sizes top = sizes(size);
  Dimensions d;
  for (int attempt = 0; attempt < 20; ++attempt) {
    d.n = low_n + (one_in(6) ? pick(0, 3) : pick(0, std::max<std::int64_t>(top.n - low_n, 1)));
    d.H = extent(top.H);
    d.F = extent(top.F);
    d.R = extent(top.R);
    d.S = pick(1, top.S);
    const std::int64_t all[] = {d.n, d.H, d.F, 2 * d.F, d.R, 2 * d.R};
    bool differ = true;
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < i; ++j) differ = differ && all[i] != all[j];
    if (differ || one_in(10)) break;
  }
  return d;
}

Element storage() {
  return *gen::weightedElement<Element>({{6, Element::bf16}, {2, Element::f16}, {2, Element::f32}});
}

LayerCase layer(int size, Fill fill, std::int64_t low_n = 1) {
  LayerCase c;
  c.d = dimensions(size, low_n);
  c.layout = c.d.n > 1 && one_in(2) ? ExpertLayout::per_expert : ExpertLayout::shared;
  c.w13 = one_in(3) ? SINKTRAP_W13_CONTIGUOUS : SINKTRAP_W13_INTERLEAVED;
  c.type = storage();
  c.gammas = one_in(4) ? Element::f32 : c.type;
  for (std::int64_t s = 0; s < c.d.S; ++s)
    c.ranks.push_back(one_in(3) ? c.d.R : one_in(6) ? 0 : pick(1, c.d.R));
  c.fill = fill;
  c.schedule = one_in(2) ? 0 : any_seed();
  c.seed = any_seed();
  return c;
}

std::vector<std::int32_t> token_slots(std::int64_t T, std::int64_t S) {
  std::vector<std::int32_t> slots;
  // A third of the batches are runs, as prefill makes them; the others are mixed.
  const bool runs = one_in(3);
  std::int32_t current = static_cast<std::int32_t>(pick(-1, S - 1));
  for (std::int64_t t = 0; t < T; ++t) {
    if (!runs || one_in(4)) current = static_cast<std::int32_t>(pick(-1, S - 1));
    slots.push_back(current);
  }
  return slots;
}

std::int64_t token_count(int size) { return one_in(25) ? 0 : pick(1, sizes(size).tokens); }

Case forward_case(int size, Fill fill, std::int64_t low_n = 1) {
  ForwardCase c;
  c.layer = layer(size, fill, low_n);
  c.slots = token_slots(token_count(size), c.layer.d.S);
  return c;
}

Case sharded_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, Fill::lattice));
  c.tp = std::int64_t{1} << pick(1, 3);
  c.layer.d.F = std::max<std::int64_t>(1, c.layer.d.F / c.tp) * c.tp;
  return c;
}

Case shared_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, Fill::lattice, 2));
  c.layer.layout = ExpertLayout::shared;
  return c;
}

// At least two tokens.
Case rows_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, one_in(2) ? Fill::lattice : Fill::dense));
  if (c.T() < 2) c.slots = token_slots(pick(2, sizes(size).tokens + 1), c.layer.d.S);
  return c;
}

// At least one slot that no token uses.
Case unused_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, one_in(2) ? Fill::lattice : Fill::dense));
  if (c.layer.d.S == 1) {
    c.layer.d.S = 2;
    c.layer.ranks.push_back(pick(0, c.layer.d.R));
  }
  const auto unused = static_cast<std::int32_t>(pick(0, c.layer.d.S - 1));
  for (std::int32_t& s : c.slots)
    if (s == unused) s = static_cast<std::int32_t>((s + 1) % c.layer.d.S);
  return c;
}

Case hostile_case(int size) {
  const Fill fill = *gen::weightedElement<Fill>(
      {{5, Fill::dense}, {2, Fill::lattice}, {2, Fill::subnormal}, {2, Fill::huge}, {1, Fill::zero}});
  ForwardCase c = std::get<ForwardCase>(forward_case(size, fill));
  if (c.T() == 0 || !one_in(2)) return c;
  const auto& d = c.layer.d;
  const std::int64_t outer = c.layer.layout == ExpertLayout::shared ? 1 : d.n;
  const std::vector<std::pair<const char*, std::vector<std::int64_t>>> tensors = {
      {"x", {c.T(), d.H}},
      {"gammas", {c.T(), d.n}},
      {"w13", {d.n, 2 * d.F, d.H}},
      {"w2", {d.n, d.H, d.F}},
      {"gate_up_lora_a", {d.S, outer, 2 * d.R, d.H}},
      {"gate_up_lora_b", {d.S, d.n, 2 * d.F, d.R}},
      {"down_lora_a", {d.S, d.n, d.R, d.F}},
      {"down_lora_b", {d.S, outer, d.H, d.R}}};
  for (std::int64_t count = pick(1, 3); count > 0; --count) {
    const auto& [name, shape] = tensors[static_cast<std::size_t>(pick(0, 7))];
    Put put;
    put.what = static_cast<Put::What>(pick(0, 3));
    put.tensor = name;
    for (const std::int64_t extent : shape) put.index.push_back(pick(0, extent - 1));
    c.layer.put.push_back(std::move(put));
  }
  return c;
}

Case pack_case(int size) {
  PackCase c;
  c.layer = layer(size, Fill::dense);
  c.layer.w13 = SINKTRAP_W13_INTERLEAVED;  // a pack case has no w13
  c.layer.gammas = c.layer.type;
  c.slot = pick(0, c.layer.d.S - 1);
  c.r = one_in(4) ? c.layer.d.R : one_in(12) ? c.layer.d.R + pick(1, 2) : pick(0, c.layer.d.R);
  c.tp = one_in(2) ? 1 : std::int64_t{1} << pick(1, 3);
  c.tp_rank = pick(0, c.tp - 1);
  c.factors = static_cast<Factors>(pick(0, 2));
  c.scaling = *gen::element(1.0, 2.0, 0.5, 0.75, 0.3, -1.0, 1e-3);
  c.scaling = static_cast<float>(c.scaling);
  return c;
}

Case shard_case(int size) {
  ShardCase c;
  c.layer = layer(size, Fill::dense);
  c.layer.w13 = SINKTRAP_W13_INTERLEAVED;
  c.layer.gammas = c.layer.type;
  c.tp = one_in(8) ? 3 : std::int64_t{1} << pick(0, 3);
  if (!one_in(4)) c.layer.d.F = std::max<std::int64_t>(1, c.layer.d.F / c.tp) * c.tp;
  return c;
}

Step state_step(const LayerCase& layer) {
  using Kind = Step::Kind;
  Step s;
  s.kind = *gen::weightedElement<Kind>({{1, Kind::bind},
                                        {1, Kind::rebind_other},
                                        {1, Kind::rebind_invalid},
                                        {3, Kind::write},
                                        {3, Kind::load},
                                        {2, Kind::unload},
                                        {5, Kind::update},
                                        {6, Kind::forward}});
  const std::int64_t S = layer.d.S, R = layer.d.R;
  const auto slot = [&](bool in_range) {
    return in_range || !one_in(10) ? pick(0, S - 1) : (one_in(2) ? S : -1);
  };
  s.seed = s.kind == Kind::update || s.kind == Kind::unload ? 0 : any_seed();
  if (s.kind == Kind::write) {
    s.slot = slot(true);
    s.r = pick(0, R);
  } else if (s.kind == Kind::load) {
    s.slot = slot(false);
    s.r = one_in(12) ? R + 1 : pick(0, R);
  } else if (s.kind == Kind::unload) {
    s.slot = slot(false);
  } else if (s.kind == Kind::update && !one_in(3)) {
    s.ids.emplace();
    for (std::int64_t count = pick(0, 3); count > 0; --count) s.ids->push_back(slot(false));
  } else if (s.kind == Kind::forward) {
    s.slots = token_slots(one_in(10) ? 0 : pick(1, 4), S);
    if (!s.slots.empty() && one_in(12)) s.slots.back() = static_cast<std::int32_t>(one_in(2) ? S : -2);
  }
  return s;
}

Case state_case(int size) {
  StateCase c;
  c.layer = layer(std::min(size, 30), Fill::dense);
  if (!one_in(6)) {
    Step bind;
    bind.kind = Step::Kind::bind;
    bind.seed = any_seed();
    c.steps.push_back(bind);
  }
  for (std::int64_t count = pick(1, 4 + size / 5); count > 0; --count) c.steps.push_back(state_step(c.layer));
  Step last;  // ends in something that is judged by an output
  last.kind = Step::Kind::update;
  c.steps.push_back(last);
  last.kind = Step::Kind::forward;
  last.slots = token_slots(pick(1, 4), c.layer.d.S);
  last.seed = any_seed();
  c.steps.push_back(last);
  return c;
}

// Real Inkling sizes and everything up to int64, for cases that never touch memory.
LayoutCase valid_layout_case(int size) {
  Dimensions d = dimensions(size);
  if (one_in(4)) {
    const bool small = one_in(2);
    d = {2, small ? 4096 : 6144, (small ? 2048 : 3072) >> pick(0, 3), std::int64_t{16} << pick(0, 2),
         pick(1, 8)};
  } else if (one_in(6)) {
    std::int64_t Dimensions::*const fields[] = {&Dimensions::H, &Dimensions::F, &Dimensions::R,
                                                &Dimensions::S};
    d.*fields[pick(0, 3)] = std::int64_t{1} << pick(20, 61);
  }
  LayoutCase c = valid_layout(d, one_in(2) ? ExpertLayout::shared : ExpertLayout::per_expert);
  if (one_in(3)) {
    c.H = d.H;
    c.F = d.F;
  }
  const Element type = storage();
  for (BufferCase& b : c.buffers) b.dtype = dl_type(type);
  return c;
}

std::int64_t wild_extent(const LayoutCase& c) {
  const auto& b = c.buffers[static_cast<std::size_t>(pick(0, 3))].shape;
  switch (pick(0, 5)) {
    case 0:
      return b.empty() ? 0 : b[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(b.size()) - 1))];
    case 1:
      return pick(-2, 4);
    case 2:
      return c.n;
    case 3:
      return *gen::element<std::int64_t>(0, 1, -1, std::int64_t{1} << 31, std::int64_t{1} << 62, INT64_MAX,
                                         INT64_MIN, INT64_MAX / 2 + 1, -(std::int64_t{1} << 62));
    default:
      return pick(0, 40);
  }
}

LayoutCase any_shapes(int size) {
  LayoutCase c = valid_layout_case(size);
  if (c.n > 1 && one_in(6)) {  // the mixed pair that the layer must refuse
    auto& outer =
        c.buffers[one_in(2) ? SINKTRAP_BUFFER_GATE_UP_LORA_A : SINKTRAP_BUFFER_DOWN_LORA_B].shape[1];
    outer = outer == 1 ? c.n : 1;
  }
  const std::int64_t edits = one_in(4) ? 0 : one_in(3) ? pick(2, 6) : 1;
  for (std::int64_t i = 0; i < edits; ++i) {
    auto& shape = c.buffers[static_cast<std::size_t>(pick(0, 3))].shape;
    if (one_in(12)) {
      shape.resize(static_cast<std::size_t>(pick(0, 6)), 1);
      continue;
    }
    if (shape.empty()) continue;
    std::int64_t& v = shape[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(shape.size()) - 1))];
    v = one_in(2) && v < INT64_MAX && v > INT64_MIN ? v + (one_in(2) ? 1 : -1) : wild_extent(c);
  }
  if (one_in(12)) c.n = wild_extent(c);
  if (one_in(12)) c.H = one_in(2) ? pick(-1, 8) : wild_extent(c);
  if (one_in(12)) c.F = one_in(2) ? pick(-1, 8) : wild_extent(c);
  return c;
}

LayoutCase anything(int size) {
  LayoutCase c = one_in(3) ? any_shapes(size) : valid_layout_case(size);
  const bool placed = one_in(2);
  std::uint64_t at = 4096;
  for (BufferCase& b : c.buffers) {
    if (placed) {
      b.address = at;
      double bytes = 2;
      for (const std::int64_t e : b.shape) bytes *= static_cast<double>(std::max<std::int64_t>(e, 1));
      if (bytes < 1e15) at += (static_cast<std::uint64_t>(bytes) * 2 / 256 + 1) * 256;
    }
    if (one_in(4) && b.shape.size() < 8) {
      std::vector<std::int64_t> strides(b.shape.size(), 1);
      for (std::size_t i = b.shape.size(); i-- > 1;)
        strides[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) *
                                                   static_cast<std::uint64_t>(b.shape[i]));
      if (!strides.empty() && one_in(3))
        strides[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(strides.size()) - 1))] =
            pick(-1, 9);
      b.strides = std::move(strides);
    }
  }
  BufferCase& b = c.buffers[static_cast<std::size_t>(pick(0, 3))];
  switch (pick(0, 9)) {
    case 0:
      b.dtype = dl_type(*gen::element(Element::f64, Element::f16, Element::f32, Element::i32));
      break;
    case 1:
      b.dtype.lanes = static_cast<std::uint16_t>(pick(0, 3));
      break;
    case 2:
      b.device = {kDLCUDA, static_cast<std::int32_t>(pick(0, 1))};
      break;
    case 3:
      b.byte_offset = static_cast<std::uint64_t>(pick(0, 9));
      break;
    case 4:
      if (placed) b.address = static_cast<std::uint64_t>(one_in(2) ? 0 : pick(1, 9000));
      break;
    case 5:
      if (placed) b.address = *c.buffers[0].address + static_cast<std::uint64_t>(pick(0, 64)) * 2;
      break;
    case 6:
      if (placed) b.address = UINT64_MAX - static_cast<std::uint64_t>(pick(0, 64));
      break;
    default:
      break;
  }
  return c;
}

Case make(Generator family, int size) {
  switch (family) {
    case Generator::layout_shapes:
      return any_shapes(size);
    case Generator::layout_anything:
      return anything(size);
    case Generator::layout_valid: {
      LayoutCase c = valid_layout_case(size);
      while (!in_image(c)) c = valid_layout_case(size);  // a huge extent may exceed int64 bytes
      return c;
    }
    case Generator::forward_lattice:
      return forward_case(size, Fill::lattice);
    case Generator::forward_sharded:
      return sharded_case(size);
    case Generator::forward_shared:
      return shared_case(size);
    case Generator::forward_rows:
      return rows_case(size);
    case Generator::forward_unused:
      return unused_case(size);
    case Generator::forward_dense:
      return forward_case(size, Fill::dense);
    case Generator::forward_hostile:
      return hostile_case(size);
    case Generator::state:
      return state_case(size);
    case Generator::pack:
      return pack_case(size);
    case Generator::shard:
      return shard_case(size);
  }
  return LayoutCase{};
}

rc::Seq<Case> smaller_seq(const Case& c) { return rc::seq::fromContainer(smaller_cases(c)); }

// The typed generator: what it makes shrinks by the same typed steps wherever RapidCheck drives it.
Gen<Case> case_generator(Generator family, int size) {
  return gen::shrink(gen::noShrink(gen::exec([family, size] { return make(family, size); })), smaller_seq);
}

}  // namespace

Case generate_case(Generator family, std::uint64_t seed, int size) {
  // RapidCheck scales inRange by the size it is called with; ours is a bound on extents and nothing else.
  return case_generator(family, size)(rc::Random(seed), rc::kNominalSize).value();
}

Case shrink_case(const Case& failing, const std::function<bool(const Case&)>& fails, int budget) {
  auto current = rc::shrinkable::shrinkRecur(failing, smaller_seq);
  while (true) {
    bool moved = false;
    auto candidates = current.shrinks();
    while (auto candidate = candidates.next()) {
      if (budget-- <= 0) return current.value();
      if (!fails(candidate->value())) continue;
      current = *candidate;
      moved = true;
      break;
    }
    if (!moved) return current.value();
  }
}

}  // namespace sinktrap
