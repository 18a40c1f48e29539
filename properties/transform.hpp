// Changes of inputs that metamorphic laws make: on tensors, exactly, without arithmetic.
#pragma once
#include "cases/inputs.hpp"

namespace sinktrap {

void fill_with_nan(Tensor& t);
// Slot s of a pool buffer.
void fill_slot(Tensor& t, std::int64_t s, double value);

// The entries `indices` of an axis, in that order; -1 gives zeros.
Tensor take_axis(const Tensor& t, int axis, const std::vector<std::int64_t>& indices);

// [S, 1, a, b] -> [S, n, a, b] with n equal copies.
Tensor repeat_outer(const Tensor& factor, std::int64_t n);

// Features [p*F/P, (p+1)*F/P) of everything that has features: w13 (gate and up rows separately), w2, gate/up
// B, down A. P divides F.
ForwardInputs shard_inputs(const ForwardInputs& in, std::int64_t p, std::int64_t P);

}  // namespace sinktrap
