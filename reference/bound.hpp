// How far a legal implementation's output may lie from the exact value, per element (CONTRACT.md section 6,
// "Bounded").
#pragma once
#include <vector>

#include "reference/forward.hpp"

namespace sinktrap::reference {

// The bound covers every f32 accumulation order and tensor-core accumulation, the rounding at the seams of
// the mask, silu in its accuracy class, subnormals flushed, and the final rounding to storage.
struct Bound {
  std::vector<double>
      error;  // [T, H]; +infinity: not judged (a seam or accumulator may leave the finite range)
};

// seams: the declared set, or SINKTRAP_ALL_SEAMS for an implementation that declares none (the bound is
// monotone in the set).
Bound worst_case_bound(const Problem& problem, const Stages& stages, std::uint32_t seams,
                       std::int32_t silu_class);

// The probabilistic bound, for inputs that were drawn independently (fill `dense`) and for nothing else:
// equal features or chosen patterns break its model. An element of a legal implementation leaves it with a
// probability of about 1e-14 (the derivation stands in bound_independent.cpp). Infinite where its model does
// not apply.
Bound independent_bound(const Problem& problem, const Stages& stages, std::uint32_t seams,
                        std::int32_t silu_class);
// Multiplications that it takes, near enough: it carries every bridge's error to every output.
double independent_bound_work(const Problem& problem);

}  // namespace sinktrap::reference
