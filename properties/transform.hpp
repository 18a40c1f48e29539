// Changes of inputs that metamorphic laws make: on tensors, exactly, without arithmetic.
#pragma once
#include <array>

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

// Descriptors of a pool, and the strides behind them: these live as long as the descriptors are used.
using BufferViews = std::array<DLTensor, SINKTRAP_BUFFER_COUNT>;
using BufferStrides = std::array<std::array<std::int64_t, 4>, SINKTRAP_BUFFER_COUNT>;
// Buffer b as a view into rows that are one element longer; no more than the same memory where it has a
// single row.
void lengthen_rows(BufferViews& views, BufferStrides& strides, std::size_t b);
// The same of the first buffer from b on, cyclically, for which it is no contiguous tensor any more
// (gate_up_lora_a always has two rows).
void lengthen_some_rows(BufferViews& views, BufferStrides& strides, std::size_t b);

}  // namespace sinktrap
