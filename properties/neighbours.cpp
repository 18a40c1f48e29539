#include "properties/neighbours.hpp"

#include <algorithm>

#include "cases/names.hpp"

namespace sinktrap {
namespace {

// One of several values, each as likely as the others.
template <class T>
T one_of(Random& random, std::initializer_list<T> list) {
  return list.begin()[random.below(static_cast<std::uint32_t>(list.size()))];
}

std::int64_t upto(Random& random, std::int64_t low, std::int64_t high) {
  if (high <= low) return low;
  return low + random.below(
                   static_cast<std::uint32_t>(std::min<std::int64_t>(high - low + 1, std::int64_t{1} << 31)));
}

// Small seeds are met again by other cases; large ones are new contents.
std::uint64_t other_seed(Random& random, std::uint64_t seed) {
  return one_of<std::uint64_t>(random,
                               {seed + 1, random.below(4), random.below(1u << 16), random.next() >> 1});
}

std::int64_t other_extent(Random& random, std::int64_t v, std::int64_t low, std::int64_t top) {
  const std::int64_t to =
      one_of<std::int64_t>(random, {low, v - 1, v + 1, v / 2, 2 * v, top, upto(random, low, top)});
  return std::clamp(to, low, std::max(top, std::min(v, top)));
}

constexpr std::int64_t Dimensions::*kExtents[] = {&Dimensions::n, &Dimensions::H, &Dimensions::F,
                                                  &Dimensions::R, &Dimensions::S};

std::int64_t top_of(const CaseSizes& top, std::size_t which) {
  const std::int64_t tops[] = {top.n, top.H, top.F, top.R, top.S};
  return tops[which];
}

void change_extent(LayerCase& c, Random& random, const CaseSizes& top) {
  const std::size_t which = random.below(5);
  std::int64_t& v = c.d.*kExtents[which];
  const std::int64_t old_rank = c.d.R;
  v = other_extent(random, v, 1, top_of(top, which));
  // Adapters that filled the pool's rank mostly keep filling it, so that a larger R is not only larger tails.
  if (which == 3 && random.chance(1, 2))
    for (std::int64_t& r : c.ranks)
      if (r == old_rank) r = c.d.R;
  const std::size_t slots = c.ranks.size();
  repair(c);
  for (std::size_t s = slots; s < c.ranks.size(); ++s) c.ranks[s] = upto(random, 0, c.d.R);
}

void change_contents(LayerCase& c, Random& random, bool with_lattice) {
  switch (random.below(4)) {
    case 0:
      c.fill = static_cast<Fill>(random.below(6));
      if (!with_lattice && c.fill == Fill::lattice) c.fill = Fill::dense;
      break;
    case 1:
      c.schedule = one_of<std::uint64_t>(random, {0, random.below(8), random.next()});
      break;
    default:
      c.seed = other_seed(random, c.seed);
  }
}

void change_put(LayerCase& c, std::int64_t T, Random& random) {
  if (!c.put.empty() && random.chance(1, 2)) {
    c.put.erase(c.put.begin() + random.below(static_cast<std::uint32_t>(c.put.size())));
    return;
  }
  const std::size_t tensor = random.below(static_cast<std::uint32_t>(words::put_tensors.size()));
  Put put;
  put.what = static_cast<Put::What>(random.below(4));
  put.tensor = words::put_tensors[tensor];
  for (const std::int64_t extent : put_extents(c, T, tensor)) {
    if (extent == 0) return;  // no tokens, no place
    if (extent > 0) put.index.push_back(upto(random, 0, extent - 1));
  }
  if (c.put.size() < 4) c.put.push_back(std::move(put));
}

void change_types(LayerCase& c, Random& random, bool with_w13) {
  const std::uint32_t what = random.below(with_w13 ? 4 : 2);
  if (what == 0) {
    c.type = static_cast<Element>(random.below(3));
    c.gammas = c.type;
  } else if (what == 1) {
    if (c.d.n > 1)
      c.layout = c.layout == ExpertLayout::shared ? ExpertLayout::per_expert : ExpertLayout::shared;
    c.put.clear();
  } else if (what == 2) {
    c.w13 = SINKTRAP_W13_INTERLEAVED + SINKTRAP_W13_CONTIGUOUS - c.w13;
  } else {
    c.gammas = c.gammas == c.type ? Element::f32 : c.type;
  }
}

// A change inside the layer; false when the draw asks for a change beside it.
template <class C>
bool change_layer(C& c, Random& random, const CaseSizes& top, bool with_w13, bool with_lattice) {
  LayerCase& l = c.layer;
  switch (random.below(8)) {
    case 0:
    case 1:
      change_extent(l, random, top);
      repair(c);
      return true;
    case 2:
      change_types(l, random, with_w13);
      return true;
    case 3: {
      std::int64_t& r = l.ranks[random.below(static_cast<std::uint32_t>(l.ranks.size()))];
      r = one_of<std::int64_t>(random, {0, l.d.R, r / 2, upto(random, 0, l.d.R)});
      return true;
    }
    case 4:
      change_contents(l, random, with_lattice);
      return true;
    default:
      return false;
  }
}

void change_slots(std::vector<std::int32_t>& slots, Random& random, std::int32_t low, std::int64_t high,
                  std::int64_t most) {
  const auto any = [&] { return static_cast<std::int32_t>(upto(random, low, high)); };
  const auto place = [&] { return random.below(static_cast<std::uint32_t>(slots.size())); };
  const std::uint32_t what = slots.empty() ? 0 : random.below(6);
  if (what == 0) {
    if (static_cast<std::int64_t>(slots.size()) < most) slots.push_back(any());
  } else if (what == 1) {
    slots.erase(slots.begin() + place());
  } else if (what == 2) {
    std::swap(slots[place()], slots[place()]);
  } else if (what == 3) {
    slots.assign(static_cast<std::size_t>(upto(random, 0, most)), slots[place()]);
  } else {
    slots[place()] = any();
  }
}

void change(ForwardCase& c, Random& random, const CaseSizes& top) {
  if (change_layer(c, random, top, true, true)) return;
  switch (random.below(8)) {
    case 0:
      return change_put(c.layer, c.T(), random);
    case 1: {  // a number of shards that divides
      const std::int64_t tp = one_of<std::int64_t>(random, {1, 2, 4, upto(random, 1, top.tp)});
      if (tp > top.tp) return;
      if (c.layer.d.F % tp != 0) {
        c.layer.d.F = std::max<std::int64_t>(1, std::min(c.layer.d.F, top.F) / tp) * tp;
        repair(c.layer);
      }
      c.tp = tp;
      return;
    }
    default:
      change_slots(c.slots, random, -1, c.layer.d.S - 1, top.tokens);
      c.layer.put.clear();
  }
}

Step any_step(const LayerCase& l, Random& random) {
  Step s;
  s.kind = static_cast<Step::Kind>(random.below(static_cast<std::uint32_t>(words::steps.size())));
  const bool inside = s.kind == Step::Kind::write || random.chance(7, 8);
  const std::int64_t slot = inside ? upto(random, 0, l.d.S - 1) : one_of<std::int64_t>(random, {-1, l.d.S});
  if (s.kind == Step::Kind::write || s.kind == Step::Kind::load || s.kind == Step::Kind::unload)
    s.slot = slot;
  if (s.kind == Step::Kind::write) s.r = upto(random, 0, l.d.R);
  if (s.kind == Step::Kind::load) s.r = random.chance(1, 12) ? l.d.R + 1 : upto(random, 0, l.d.R);
  if (s.kind == Step::Kind::update && random.chance(2, 3)) s.ids.emplace(random.below(3), slot);
  if (s.kind == Step::Kind::forward) {
    s.slots.resize(random.below(4));
    for (std::int32_t& t : s.slots) t = static_cast<std::int32_t>(upto(random, -1, l.d.S - 1));
    if (!inside && !s.slots.empty()) s.slots.back() = static_cast<std::int32_t>(l.d.S);
  }
  if (s.kind != Step::Kind::update && s.kind != Step::Kind::unload) s.seed = other_seed(random, 0);
  return s;
}

void change_step(Step& s, const LayerCase& l, Random& random, const CaseSizes& top) {
  using Kind = Step::Kind;
  switch (s.kind) {
    case Kind::bind:
    case Kind::rebind_other:
    case Kind::rebind_invalid:
    case Kind::rebind_strided:
    case Kind::rebind_same:
      s.seed = other_seed(random, s.seed);
      return;
    case Kind::write:
    case Kind::load:
    case Kind::unload:
      if (s.kind == Kind::unload || random.chance(1, 3))
        s.slot = upto(random, 0, l.d.S - 1);
      else if (random.chance(1, 2))
        s.r = upto(random, 0, l.d.R);
      else
        s.seed = other_seed(random, s.seed);
      return;
    case Kind::update: {
      if (!s.ids || random.chance(1, 6)) {
        if (s.ids)
          s.ids.reset();
        else
          s.ids.emplace(1, upto(random, 0, l.d.S - 1));
        return;
      }
      std::vector<std::int32_t> ids(s.ids->begin(), s.ids->end());
      change_slots(ids, random, random.chance(1, 8) ? -1 : 0, random.chance(1, 8) ? l.d.S : l.d.S - 1,
                   top.S + 2);
      s.ids->assign(ids.begin(), ids.end());
      return;
    }
    case Kind::forward:
      if (random.chance(1, 3))
        s.seed = other_seed(random, s.seed);
      else
        change_slots(s.slots, random, random.chance(1, 8) ? -2 : -1, random.chance(1, 8) ? l.d.S : l.d.S - 1,
                     top.tokens);
  }
}

void change(StateCase& c, Random& random, const CaseSizes& top) {
  if (random.chance(1, 3) && change_layer(c, random, top, true, false)) return;
  auto& steps = c.steps;
  const auto place = [&] { return random.below(static_cast<std::uint32_t>(steps.size())); };
  const bool full = static_cast<std::int64_t>(steps.size()) >= top.steps;
  switch (random.below(7)) {
    case 0:
      if (full) break;
      steps.insert(steps.begin() + random.below(static_cast<std::uint32_t>(steps.size() + 1)),
                   any_step(c.layer, random));
      return;
    case 1:
      if (steps.size() < 2) break;
      steps.erase(steps.begin() + place());
      return;
    case 2: {  // the same again with other contents: a reload, a second bind
      if (full) break;
      Step again = steps[place()];
      change_step(again, c.layer, random, top);
      steps.insert(steps.begin() + random.below(static_cast<std::uint32_t>(steps.size() + 1)),
                   std::move(again));
      return;
    }
    case 3: {  // copies: g++ 12 reports std::swap of an optional falsely at -O3 (-Wmaybe-uninitialized)
      const std::size_t a = place(), b = place();
      const Step first = steps[a];
      steps[a] = Step(steps[b]);
      steps[b] = first;
      return;
    }
    case 4:
      steps[place()] = any_step(c.layer, random);
      return;
    default:
      break;
  }
  change_step(steps[place()], c.layer, random, top);
}

void change(PackCase& c, Random& random, const CaseSizes& top) {
  if (random.chance(2, 3) && change_layer(c, random, top, false, false)) return;
  switch (random.below(5)) {
    case 0:
      c.slot = upto(random, 0, c.layer.d.S - 1);
      return;
    case 1:
      c.r = one_of<std::int64_t>(random, {0, c.layer.d.R, c.layer.d.R + 1, upto(random, 0, c.layer.d.R)});
      return;
    case 2:
      c.tp = upto(random, 1, top.tp);
      c.tp_rank = upto(random, 0, c.tp - 1);
      return;
    case 3:
      c.factors = static_cast<Factors>(random.below(3));
      return;
    default:
      // Exact, inexact, negative, overflowing and underflowing binary16, zero.
      c.scaling = one_of<float>(random, {1.0F, 2.0F, 0.5F, 0.75F, 0.3F, -1.0F, 1e-3F, 1e6F, 1e-7F, 0.0F});
  }
}

void change(ShardCase& c, Random& random, const CaseSizes& top) {
  if (random.chance(2, 3) && change_layer(c, random, top, false, false)) return;
  c.tp = upto(random, 1, top.tp);
  if (random.chance(2, 3)) {
    c.layer.d.F = std::max<std::int64_t>(1, std::min(c.layer.d.F, top.F) / c.tp) * c.tp;
    repair(c.layer);
  }
}

void change(LayoutCase& c, Random& random, const CaseSizes&) { change_layout(c, random); }

const LayerCase* layer_of(const Case& c) {
  return std::visit(
      [](const auto& typed) -> const LayerCase* {
        if constexpr (std::is_same_v<std::decay_t<decltype(typed)>, LayoutCase>)
          return nullptr;
        else
          return &typed.layer;
      },
      c);
}

}  // namespace

bool within(const Case& c, const CaseSizes& top) {
  const LayerCase* l = layer_of(c);
  if (l == nullptr) return true;
  for (std::size_t i = 0; i < 5; ++i)
    if (l->d.*kExtents[i] > top_of(top, i)) return false;
  const auto fits = [&](const auto& slots) { return static_cast<std::int64_t>(slots.size()) <= top.tokens; };
  if (const auto* f = std::get_if<ForwardCase>(&c)) return fits(f->slots) && f->tp <= top.tp;
  if (const auto* s = std::get_if<StateCase>(&c))
    return static_cast<std::int64_t>(s->steps.size()) <= top.steps &&
           std::all_of(s->steps.begin(), s->steps.end(), [&](const Step& step) {
             return fits(step.slots) && step.r <= top.R + 1 &&
                    (!step.ids || static_cast<std::int64_t>(step.ids->size()) <= top.S + 2);
           });
  if (const auto* p = std::get_if<PackCase>(&c)) return p->tp <= top.tp && p->r <= top.R + 1;
  return std::get<ShardCase>(c).tp <= top.tp;
}

void repair(LayerCase& c) {
  if (c.d.n == 1) c.layout = ExpertLayout::shared;
  c.ranks.resize(static_cast<std::size_t>(c.d.S), 0);
  for (std::int64_t& r : c.ranks) r = std::min(r, c.d.R);
  c.put.clear();
}

void repair(ForwardCase& c) {
  for (std::int32_t& s : c.slots) s = std::min<std::int32_t>(s, static_cast<std::int32_t>(c.layer.d.S) - 1);
  if (c.layer.d.F % c.tp != 0) c.tp = 1;
}

void repair(StateCase& c) {
  for (Step& s : c.steps)
    if (s.kind == Step::Kind::write) {
      s.slot = std::min(s.slot, c.layer.d.S - 1);
      s.r = std::min(s.r, c.layer.d.R);
    }
}

void repair(PackCase& c) {
  c.slot = std::min(c.slot, c.layer.d.S - 1);
  c.tp_rank = std::min(c.tp_rank, c.tp - 1);
}

Case changed_case(const Case& c, Random& random, const CaseSizes& top) {
  Case result = c;
  std::visit([&](auto& typed) { change(typed, random, top); }, result);
  return result;
}

}  // namespace sinktrap
