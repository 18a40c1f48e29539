// Tensor contents from a case: everything follows from the line.
#pragma once
#include <array>

#include "cases/case.hpp"
#include "cases/tensor.hpp"

namespace sinktrap {

// The tensors of a forward case, named as in CONTRACT.md section 1.
struct ForwardInputs {
  Dimensions d;
  ExpertLayout layout = ExpertLayout::shared;
  std::int32_t w13_layout = SINKTRAP_W13_INTERLEAVED;
  Element type = Element::bf16;
  Tensor w13, w2;                                  // [n,2F,H], [n,H,F]
  std::array<Tensor, SINKTRAP_BUFFER_COUNT> pool;  // the four buffers
  Tensor x, gammas, token_slot;                    // [T,H], [T,n], [T] i32
  bool independent = false;  // every element of a weight, and of one token, was drawn by itself (fill dense)
  bool sweep = false;        // fill sweep: reference::sweep_interval may say which outputs are legal
  std::int64_t T() const { return x.extent(0); }
  std::int64_t outer() const { return layout == ExpertLayout::shared ? 1 : d.n; }
};

// A batch of more tokens than this repeats the rows (x and gammas) of at most this many of its tokens, those
// of each slot at random positions, so that a reference has to compute few rows and can compare every
// position. One row for each slot that occurs at least.
constexpr std::int64_t kDistinctRows = 256;

// Deterministic in the case alone: the same line gives the same bytes with every compiler.
ForwardInputs make_inputs(const ForwardCase& c);

// The flat factors of a pack case (whole intermediate size F * tp), of the layer's storage type.
struct AdapterFactors {
  bool per_expert = false;
  std::int64_t rank = 0, tp_rank = 0, tp_size = 1;
  float scaling = 1.0f;
  Tensor gate_a,
      up_a;  // [r,H] or [n*r,H]; up_a has no element type of its own when gate_a serves both (stacked)
  bool stacked = false;
  Tensor gate_up_b, down_a, down_b;  // [n*2*F_all, r], [r, n*F_all], [H, r] or [n*H, r]
};
AdapterFactors make_adapter(const PackCase& c);

}  // namespace sinktrap
