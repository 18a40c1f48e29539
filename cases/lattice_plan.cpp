#include "cases/lattice_plan.hpp"

#include <algorithm>
#include <numeric>

namespace sinktrap {
namespace {

// One set for base ups and one for what an adapter adds, by kind: every sum is odd and at most 3 in
// magnitude, and differs from the base.
constexpr int kUpKinds = 5;
constexpr std::int8_t kUps[kUpKinds][3] = {{3, 1, -1}, {1, -1, -3}, {3, 1, 1}, {-1, -3, -3}, {1, -1, -1}};
constexpr std::int8_t kUpDeltas[kUpKinds][2] = {{-2, -2}, {2, 2}, {-2, -4}, {2, 4}, {2, -2}};

}  // namespace

// bf16 holds 8 significant bits and f16 11, which is 8 times as fine. f32 uses the integers of bf16: its
// products are no wider than those of the others, since the accumulator is f32 all the same. Exponents of
// f16: the largest product is a gate of 448 doubled times an up of 3 doubled, 5376. Times gamma <= 2^(0+2)
// and 3 units in the output it is 64512 <= 65504; with a couple, times gamma <= 2^(-4+2) and a weight of 2^5,
// 43008.
LatticeRange lattice_range(Element type) {
  if (type == Element::f16)
    return {.weight = 1022,
            .wide = 511,
            .gates = 8,
            .gauge = 1,
            .low_gamma = -7,
            .high_gamma = 0,
            .high_gamma_couple = -4,
            .couple_exponent = 5};
  return {.weight = 254,
          .wide = 127,
          .gates = 1,
          .gauge = 3,
          .low_gamma = -7,
          .high_gamma = 3,
          .high_gamma_couple = 3,
          .couple_exponent = 6};
}

LatticePlan::LatticePlan(const ForwardCase& c, const ForwardInputs& in)
    : T(c.T()), n(in.d.n), F(in.d.F), tp(c.tp), outer(in.outer()), range(lattice_range(in.type)) {
  Random random(c.layer.seed, 100);
  // Seam values are at most 3 units of 21 z 2^spread (gate 7z, up 3): 3 * 21 * 4 = 252 < 2^8 (f16: 2016 <
  // 2^11).
  constexpr std::int32_t kWidths[3][2] = {{1, 2}, {2, 1}, {4, 0}};
  const auto& width = kWidths[random.below(n > 1 ? 2 : 3)];
  z = width[0] * range.gates;
  gamma_spread = width[1];
  gate_unit = 64 / z;

  plan_tokens(random, in.d.H);
  plan_couple(random);
  plan_groups(random);
  plan_gates(random);
  slots.resize(static_cast<std::size_t>(in.d.S));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    slots[s].rank = c.layer.ranks[s];
    if (slots[s].rank > 0) plan_slot(random, slots[s]);
  }
  plan_gammas(random);
}

void LatticePlan::plan_tokens(Random& random, std::int64_t H) {
  if (H == 1) {
    x = Pattern::single(random, 1);
  } else {
    const std::int64_t most = std::clamp<std::int64_t>(std::min(T, H / 2), 1, kMaxClasses);
    classes = random.between(1, static_cast<std::int32_t>(most));
    x = Pattern(random, classes, H, 4, range.wide, range.weight);
  }
  class_of.resize(static_cast<std::size_t>(T));
  scale_of.resize(class_of.size());
  for (std::size_t t = 0; t < class_of.size(); ++t) {
    const auto all = static_cast<std::size_t>(classes);
    class_of[t] = static_cast<std::uint8_t>(t < all ? t : random.below(static_cast<std::uint32_t>(all)));
    scale_of[t] = static_cast<std::uint8_t>(random.between(1, 2));
  }
  random.shuffle(std::span(class_of));
}

// Nearly always: without a couple nothing shows that single experts' parts were rounded
// (bench/lattice_power.cpp). Both experts keep groups of their own (F >= 2). With three experts or more there
// is usually one between them in the order of summation, whose nets make a running sum of experts wide.
void LatticePlan::plan_couple(Random& random) {
  if (n < 2 || F < 2 || !random.chance(19, 20)) return;
  const auto experts = static_cast<std::int32_t>(n);
  Couple c;
  if (n > 2 && random.chance(19, 20)) {
    c.expert_a = random.between(0, experts - 3);
    c.expert_b = random.between(static_cast<std::int32_t>(c.expert_a) + 2, experts - 1);
  } else {
    c.expert_a = random.between(0, experts - 2);
    c.expert_b = random.between(static_cast<std::int32_t>(c.expert_a) + 1, experts - 1);
  }
  c.ratio = n > 2 ? random.between(-1, 1) : random.sign();  // with two experts equal gammas would hide a swap
  const std::int64_t shard = F / tp;
  c.feature_a = random.between(0, static_cast<std::int32_t>(F - 1));
  c.feature_b = c.feature_a / shard * shard + random.between(0, static_cast<std::int32_t>(shard - 1));
  couple = c;
}

void LatticePlan::plan_groups(Random& random) {
  group_of.assign(static_cast<std::size_t>(n * F), -1);
  rho.resize(group_of.size());
  for (std::int8_t& r : rho) r = static_cast<std::int8_t>(random.sign());
  if (couple) {
    groups.push_back({});
    group_of[feature(couple->expert_a, couple->feature_a)] = 0;
    group_of[feature(couple->expert_b, couple->feature_b)] = 0;
  }
  std::vector<std::int64_t> free;
  for (std::int64_t e = 0; e < n; ++e) {
    first_of.push_back(group_count());
    for (std::int64_t shard = 0; shard < tp; ++shard) {  // a shard has to be exact by itself
      free.clear();
      for (std::int64_t j = shard * (F / tp); j < (shard + 1) * (F / tp); ++j)
        if (group_of[feature(e, j)] < 0) free.push_back(j);
      random.shuffle(std::span(free));
      while (!free.empty()) {
        Group g;
        g.expert = e;
        g.size = free.size() == 3 ? 3 : free.size() >= 2 ? 2 : 1;
        for (int i = 0; i < g.size; ++i) {
          g.feature[i] = free.back();
          group_of[feature(e, free.back())] = group_count();
          free.pop_back();
        }
        groups.push_back(g);
      }
    }
    always.push_back(random.between(first_of.back(), group_count() - 1));
  }
  first_of.push_back(group_count());
  is_always_.assign(groups.size(), false);
  if (couple) is_always_[0] = true;
  for (std::int32_t g : always) is_always_[static_cast<std::size_t>(g)] = true;
}

// Base gates lie in 2z..6z or -6z..-3z; an adapter moves them by at most z, so that they stay in z..7z or
// -7z..-2z, or flips them to the other side. Times gate_unit that is 64..448, and -448..-128.
void LatticePlan::plan_gates(Random& random) {
  const std::size_t G = groups.size();
  gate.resize(static_cast<std::size_t>(classes) * G);
  up.resize(gate.size());
  up_kind_.resize(G);
  for (std::size_t g = 0; g < G; ++g) {
    const bool same_side = random.chance(7, 10);
    const bool all_positive = random.chance(3, 4);
    up_kind_[g] = static_cast<std::uint8_t>(random.below(kUpKinds));
    for (int c = 0; c < classes; ++c) {
      const std::size_t i = static_cast<std::size_t>(c) * G + g;
      const bool positive = is_always_[g] || (same_side ? all_positive : random.chance(3, 4));
      const std::int32_t v = positive ? random.between(2 * z, 6 * z) : -random.between(3 * z, 6 * z);
      gate[i] = static_cast<std::int16_t>(v);
      up[i] = kUps[up_kind_[g]][random.below(3)];
    }
  }
}

void LatticePlan::plan_slot(Random& random, Slot& slot) {
  const std::int64_t most = std::clamp<std::int64_t>(slot.rank / 2, 1, classes);
  slot.types = random.between(1, static_cast<std::int32_t>(most));
  for (int c = 0; c < classes; ++c)
    slot.type_of[static_cast<std::size_t>(c)] =
        static_cast<std::uint8_t>(c < slot.types ? c : random.between(0, slot.types - 1));
  random.shuffle(std::span(slot.type_of).first(static_cast<std::size_t>(classes)));
  for (std::int64_t i = 0; i < 2 * outer; ++i) {
    if (slot.rank ==
        1)  // all deltas of up are even: magnitude 2 tells the bridge of up from that of the gate
      slot.bridges.push_back(Pattern::single(random, 1 + static_cast<int>(i % 2)));
    else
      slot.bridges.emplace_back(random, slot.types, slot.rank, 3, range.wide, range.weight);
  }

  const std::size_t G = groups.size();
  slot.gate.resize(static_cast<std::size_t>(slot.types) * G);
  slot.up.resize(slot.gate.size());
  for (int type = 0; type < slot.types; ++type) {
    for (std::size_t g = 0; g < G; ++g) {
      int positive = 0, negative = 0;  // classes of this type
      for (int c = 0; c < classes; ++c)
        if (slot.type_of[static_cast<std::size_t>(c)] == type)
          ++(gate[static_cast<std::size_t>(c) * G + g] > 0 ? positive : negative);
      std::int32_t delta = random.signed_magnitude(static_cast<std::uint32_t>(z));
      if (!is_always_[g] && random.chance(3, 10)) {
        if (negative == 0)
          delta = -8 * z;  // 2z..6z becomes -6z..-2z
        else if (positive == 0)
          delta = random.between(7 * z, 10 * z);  // -6z..-3z becomes z..7z
      }
      const std::size_t i = static_cast<std::size_t>(type) * G + g;
      slot.gate[i] = static_cast<std::int16_t>(delta);
      slot.up[i] = kUpDeltas[up_kind_[g]][random.below(2)];
    }
  }
}

void LatticePlan::plan_gammas(Random& random) {
  gamma.resize(static_cast<std::size_t>(T * n));
  lowest_gamma_.resize(static_cast<std::size_t>(T));
  const std::int32_t low = range.low_gamma, high = couple ? range.high_gamma_couple : range.high_gamma;
  for (std::int64_t t = 0; t < T; ++t) {
    const auto row = std::span(gamma).subspan(static_cast<std::size_t>(t * n), static_cast<std::size_t>(n));
    // Half of the tokens far below 1, like the gates of a router over many experts.
    const std::int32_t base = random.between(low, random.chance(1, 2) ? std::min(-5, high) : high);
    for (std::int8_t& v : row) v = static_cast<std::int8_t>(base + random.between(0, gamma_spread));
    if (couple) {
      const std::int32_t r = couple->ratio;
      const std::int32_t b = random.between(std::max(0, -r), gamma_spread - std::max(0, r));
      row[static_cast<std::size_t>(couple->expert_b)] = static_cast<std::int8_t>(base + b);
      row[static_cast<std::size_t>(couple->expert_a)] = static_cast<std::int8_t>(base + b + r);
    }
    lowest_gamma_[static_cast<std::size_t>(t)] = *std::min_element(row.begin(), row.end());
  }
}

std::int32_t LatticePlan::activation(std::int32_t slot, int c, std::int32_t g) const {
  const std::size_t G = groups.size(), i = static_cast<std::size_t>(c) * G + static_cast<std::size_t>(g);
  std::int32_t gate_value = gate[i], up_value = std::int32_t{up[i]};
  if (slot >= 0 && slots[static_cast<std::size_t>(slot)].rank > 0) {
    const Slot& s = slots[static_cast<std::size_t>(slot)];
    const std::size_t k = s.type_of[static_cast<std::size_t>(c)] * G + static_cast<std::size_t>(g);
    gate_value += s.gate[k];
    up_value += s.up[k];
  }
  return std::max(gate_value, 0) * up_value;
}

std::int32_t LatticePlan::gamma_ratio(std::int64_t t, std::int64_t e) const {
  return 1 << (gamma[static_cast<std::size_t>(t * n + e)] - lowest_gamma_[static_cast<std::size_t>(t)]);
}

}  // namespace sinktrap
