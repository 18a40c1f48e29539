// Tokens that have the same slot, x and gammas have the same output: the reference computes each such row
// once, and every position is compared with it.
#pragma once
#include "cases/inputs.hpp"

namespace sinktrap {

// Batches up to this size are taken as they are: looking for equal rows would save nothing there.
constexpr std::int64_t kDistinctFrom = 256;

struct Distinct {
  bool whole = true;                 // every token is a row of its own; `rows` is then empty
  std::vector<std::int32_t> row_of;  // [T]
  Tensor x, gammas, token_slot;      // of the distinct rows, in order of their first token
};

// Equal by value of the bytes, whoever made the inputs.
Distinct distinct_rows(const ForwardInputs& in);

}  // namespace sinktrap
