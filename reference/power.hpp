// What a case can see: for each kind of fault, whether an implementation that is right in everything else
// would be caught (CONTRACT.md section 6). A case whose tolerance is wider than the change that a fault makes
// is vacuous for that kind.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/forward.hpp"

namespace sinktrap::reference {

enum class FaultKind : std::uint8_t {
  missing_delta,
  lost_token_delta,
  wrong_slot,
  wrong_expert,
  swapped_halves,
  lost_rank_column,
  lost_feature,
  lost_hidden_column,
  missing_gamma,
  scaled_down_delta
};
constexpr int kFaultKinds = 10;

struct FaultKindRow {
  FaultKind kind;
  std::string_view name, meaning;
};
const std::array<FaultKindRow, kFaultKinds>& fault_kinds();

// Bit i stands for FaultKind i. A kind that the case has no place for (no adapted token, one slot, one
// expert) is in neither mask.
struct Power {
  std::uint32_t seen = 0, vacuous = 0;
};

// `error`: [T, H] as from a bound (an element of infinite error sees nothing), or null where outputs are
// compared exactly. Of a large batch the first tokens of each slot and the last adapted one are looked at
// (kPowerTokens): what they see the batch sees.
constexpr std::int64_t kPowerTokens = 12;
Power power_of(const Problem& problem, const std::vector<double>* error);

}  // namespace sinktrap::reference
