// Where NaN and infinity may and must arrive (CONTRACT.md section 6, "NaN and infinity"): for each output
// what section 5 leads to it.
#pragma once
#include <cstdint>
#include <vector>

#include "reference/forward.hpp"

namespace sinktrap::reference {

// In ascending order: a sum is what the largest of its terms is.
enum class Reach : std::uint8_t {
  clean,       // no NaN and no infinity leads here: the value is that of finite arithmetic
  anything,    // one leads here, but with a zero factor (which may be skipped) or through silu(-infinity)
  not_finite,  // an infinity leads here with no zero factor: infinity or NaN
  nan          // a NaN leads here with no zero factor
};

// [T, H]. A factor counts as zero where rounding, flushing or cancellation may make it so (the limits stand
// in reach.cpp). `stages` are those of forward_f64; the cost is a few passes over the weights.
std::vector<Reach> reach_of(const Problem& problem, const Stages& stages);

}  // namespace sinktrap::reference
