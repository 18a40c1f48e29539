#include "properties/generators.hpp"

#include "cases/names.hpp"
#include "judge/layouts.hpp"
#include "properties/draw.hpp"
#include "properties/neighbours.hpp"
#include "properties/shrink.hpp"

namespace sinktrap {
namespace {

using rc::Gen;
namespace gen = rc::gen;

using namespace draw;

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

// Mostly dense: the expansion of an exact case is rarely exact (its bridges are other numbers), and the bound
// of a case built from cancelling terms sees little.
Case shared_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, one_in(4) ? Fill::lattice : Fill::dense, 2));
  c.layer.layout = ExpertLayout::shared;
  return c;
}

// The smallest layers: each extent is 1 more often than not.
Case limits_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(std::min(size, 20), Fill::lattice));
  auto& d = c.layer.d;
  for (std::int64_t* extent : {&d.n, &d.H, &d.F, &d.R, &d.S})
    if (!one_in(3)) *extent = 1;
  repair(c.layer);
  c.slots = token_slots(one_in(8) ? 0 : pick(1, 3), d.S);
  return c;
}

// Two or more of everything that a permutation can reorder.
Case rich_case(int size) {
  ForwardCase c = std::get<ForwardCase>(forward_case(size, one_in(2) ? Fill::lattice : Fill::dense, 2));
  auto& d = c.layer.d;
  d.R = std::max<std::int64_t>(d.R, 2);
  d.S = std::max<std::int64_t>(d.S, 2);
  c.layer.ranks.assign(static_cast<std::size_t>(d.S), d.R);
  for (std::int64_t& r : c.layer.ranks) r = one_in(3) ? pick(0, d.R) : d.R;
  c.slots = token_slots(pick(2, sizes(size).tokens + 1), d.S);
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
  for (std::int64_t count = pick(1, 3); count > 0; --count) {
    const auto tensor = static_cast<std::size_t>(pick(0, 7));
    Put put;
    put.what = static_cast<Put::What>(pick(0, 3));
    put.tensor = words::put_tensors[tensor];
    for (const std::int64_t extent : put_extents(c.layer, c.T(), tensor))
      if (extent > 0) put.index.push_back(pick(0, extent - 1));
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
                                        {1, Kind::rebind_strided},
                                        {1, Kind::rebind_same},
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
    if (!s.ids->empty() && one_in(6))
      s.ids->push_back(S);  // a refusal that comes last must undo what came first
  } else if (s.kind == Kind::forward) {
    s.slots = token_slots(one_in(10) ? 0 : pick(1, 4), S);
    if (!s.slots.empty() && one_in(12)) s.slots.back() = static_cast<std::int32_t>(one_in(2) ? S : -2);
  }
  return s;
}

// Every slot gets another adapter, then one update names them all: an update that stops early leaves some
// stale.
void write_all_then_update(StateCase& c) {
  Step update;
  update.kind = Step::Kind::update;
  update.ids.emplace();
  for (std::int64_t slot = 0; slot < c.layer.d.S; ++slot) {
    Step write;
    write.kind = Step::Kind::write;
    write.slot = slot;
    write.r = pick(1, c.layer.d.R);
    write.seed = any_seed();
    c.steps.push_back(write);
    update.ids->push_back(slot);
  }
  c.steps.push_back(update);
}

// The same slot is loaded twice at the same rank: the second adapter must replace the first.
void reload(StateCase& c) {
  Step step;
  step.kind = Step::Kind::load;
  step.slot = pick(0, c.layer.d.S - 1);
  step.r = pick(1, c.layer.d.R);
  for (int i = 0; i < 2; ++i) {
    step.seed = any_seed();
    c.steps.push_back(step);
  }
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
  if (one_in(4)) write_all_then_update(c);
  if (one_in(6)) reload(c);
  Step last;  // ends in something that is judged by an output
  last.kind = Step::Kind::update;
  c.steps.push_back(last);
  last.kind = Step::Kind::forward;
  last.slots = token_slots(pick(1, 4), c.layer.d.S);
  last.seed = any_seed();
  c.steps.push_back(last);
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
    case Generator::forward_limits:
      return limits_case(size);
    case Generator::forward_rich:
      return rich_case(size);
    case Generator::forward_sweep:
      return forward_case(size, Fill::sweep);
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

// An object, not a function: clang 14 cannot take a function where RapidCheck stores its copy.
const auto smaller_seq = [](const Case& c) -> rc::Seq<Case> {
  return rc::seq::fromContainer(smaller_cases(c));
};

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
