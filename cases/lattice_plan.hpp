// The lattice: inputs on which every legal implementation computes without any rounding (CONTRACT.md section
// 6). This header is the plan of a case: what it is to look like, in small integers, before any weight is
// drawn.
//
// How a case is built, before a final change of units by powers of two:
//  - Tokens fall into at most 12 classes; x[t] is the integer pattern of its class times 1 or 2. Every weight
//    row of w13 and gate_up_lora_a is drawn at random and then closed, so that its product with each class is
//    the integer that the plan asks for (lattice_pattern.hpp). The bridges are such patterns too, and
//    gate_up_lora_b is closed on them.
//  - Gates are 64 m / z with m in z..7z or -7z..-2z, so silu is the identity or zero; up is odd, at most 3.
//  - Features fall into groups of equal |act|. w2 and down_lora_a have large weights that cancel inside each
//    group, and a few weights of +-1 on top, the nets: the outputs are sums of few activations, narrow enough
//    for the storage type, while the sums that lead to them swing widely (lattice_down.cpp).
//  - One output row is a witness: what it shows of a token differs from what the base model shows, whatever
//    the slot.
//
// Units of the plan: gates count `gate_unit` = 64 / z, ups 1. The activation of a feature of token t, expert
// e is then rho * gate * up * (gate_unit * scale_t^2 * gamma) with integers gate and up; a unit of the token
// is gate_unit * scale_t^2 * (its smallest gamma).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cases/inputs.hpp"
#include "cases/lattice_pattern.hpp"
#include "cases/random.hpp"

namespace sinktrap {

// Integer ranges that suit a storage type.
struct LatticeRange {
  std::int32_t weight;  // of closed rows: even and below 2^p, so that one more by +-1 still fits p bits
  std::int32_t wide;    // largest entry of a pattern: half of that, since tokens may be doubled
  std::int32_t gates;   // multiplies z: more significand leaves room for finer gates
  std::int32_t gauge;   // powers of two, up to this exponent, that may be moved between factors
  std::int32_t low_gamma, high_gamma, high_gamma_couple;  // exponents
  std::int32_t couple_exponent;                           // of the largest weight of a couple
};
LatticeRange lattice_range(Element type);

struct LatticePlan {
  // Features of one expert and one shard with the same gate plan and |up|; 2 or 3 where possible. The last
  // member carries the nets.
  struct Group {
    std::int64_t expert = 0;
    int size = 0;
    std::int64_t feature[3] = {0, 0, 0};
    std::int64_t last() const { return feature[size - 1]; }
  };
  // Two features of different experts whose contributions can cancel: gamma of `a` = 2^ratio times gamma of
  // `b`.
  struct Couple {
    std::int64_t expert_a = 0, feature_a = 0, expert_b = 0, feature_b = 0;
    std::int32_t ratio = 0;
  };
  // The plan of one adapter. Classes with the same rank type have the same bridges, hence the same deltas.
  struct Slot {
    std::int64_t rank = 0;
    int types = 0;
    std::array<std::uint8_t, kMaxClasses> type_of{};  // of each token class
    std::vector<Pattern> bridges;                     // [outer][2]: gate, up
    std::vector<std::int16_t> gate;                   // [types][groups], added to the base's
    std::vector<std::int8_t> up;
  };

  LatticePlan(const ForwardCase& c, const ForwardInputs& in);

  std::int64_t T, n, F, tp, outer;
  LatticeRange range;
  std::int32_t z = 1;             // gates are z..7z or -7z..-2z
  std::int32_t gamma_spread = 0;  // gammas of a token differ by at most 2^this
  std::int32_t gate_unit = 64;    // 64 / z
  int classes = 1;

  Pattern x;                           // [classes] over H
  std::vector<std::uint8_t> class_of;  // [T]
  std::vector<std::uint8_t> scale_of;  // [T]: 1 or 2
  std::vector<std::int8_t> gamma;      // [T, n]: exponents
  std::optional<Couple> couple;        // is group 0 when there is one; needs no expert or size there
  std::vector<Group> groups;
  std::vector<std::int32_t> group_of;  // [n, F]
  std::vector<std::int8_t> rho;        // [n, F]: +1 or -1, the sign of up relative to the group's
  std::vector<std::int32_t> first_of;  // [n + 1]: groups of expert e are first_of[e] .. first_of[e + 1] - 1
  std::vector<std::int32_t> always;    // [n]: for each expert a group whose gate is positive everywhere
  std::vector<std::int16_t> gate;      // [classes][groups]
  std::vector<std::int8_t> up;         // [classes][groups]
  std::vector<Slot> slots;             // [S]

  std::int32_t group_count() const { return static_cast<std::int32_t>(groups.size()); }
  std::size_t feature(std::int64_t e, std::int64_t j) const { return static_cast<std::size_t>(e * F + j); }
  // gate+ * up of a group, for a token class and a slot (-1: base).
  std::int32_t activation(std::int32_t slot, int c, std::int32_t g) const;
  // gamma of expert e over the smallest gamma of the token.
  std::int32_t gamma_ratio(std::int64_t t, std::int64_t e) const;

 private:
  void plan_tokens(Random& random, std::int64_t H);
  void plan_couple(Random& random);
  void plan_groups(Random& random);
  void plan_gates(Random& random);
  void plan_slot(Random& random, Slot& slot);
  void plan_gammas(Random& random);
  std::vector<std::int8_t> lowest_gamma_;  // [T]: smallest exponent of the token
  std::vector<std::uint8_t> up_kind_;      // [groups]
  std::vector<bool> is_always_;            // [groups]
};

// The parts of fill_lattice that are in lattice_down.cpp: w2, down_lora_a and down_lora_b. w2_power and so on
// are the exponents of the final change of units.
void fill_lattice_down(const ForwardCase& c, const LatticePlan& plan, std::int32_t w2_power,
                       std::int32_t a_power, std::int32_t b_power, ForwardInputs& in);

}  // namespace sinktrap
