// Neighbours of a case: the case with one typed value changed, and what has to change with it. The shrinker,
// the generators and the fuzzers' mutator share what is here.
#pragma once
#include <array>
#include <optional>

#include "cases/case.hpp"
#include "cases/random.hpp"

namespace sinktrap {

// Largest extents that a change or a crossing may lead to; a case that is larger already keeps its size.
struct CaseSizes {
  std::int64_t n = 3, H = 8, F = 8, R = 4, S = 3;
  std::int64_t tokens = 6;  // of a batch
  std::int64_t steps = 12;  // of a state case
  std::int64_t tp = 4;
};

// True when no extent, batch or sequence of the case exceeds `top`. Layout cases have no memory behind their
// shapes: always true.
bool within(const Case& c, const CaseSizes& top);

// Extents that only shapes without memory can have: the edges of int32 and int64, where products wrap.
inline constexpr std::array<std::int64_t, 9> kWildExtents = {0,
                                                             1,
                                                             -1,
                                                             std::int64_t{1} << 31,
                                                             std::int64_t{1} << 62,
                                                             INT64_MAX,
                                                             INT64_MIN,
                                                             INT64_MAX / 2 + 1,
                                                             -(std::int64_t{1} << 62)};

// After an extent changed: one expert has one layout, every slot a rank of at most R, and `put` is dropped
// (its indices are those of the old extents).
void repair(LayerCase& c);
// After the layer changed: slots, tensor-parallel counts and written ranks stay inside it.
void repair(ForwardCase& c);
void repair(StateCase& c);
void repair(PackCase& c);
inline void repair(ShardCase&) {}

// The case with one field changed. It parses, and nearly always differs from `c`.
Case changed_case(const Case& c, Random& random, const CaseSizes& top);

// Fields of `a`, some replaced by those of `b`. Empty for cases of different kinds.
std::optional<Case> crossed_case(const Case& a, const Case& b, Random& random, const CaseSizes& top);

// The part about layout cases (neighbours_layout.cpp).
void change_layout(LayoutCase& c, Random& random);

}  // namespace sinktrap
