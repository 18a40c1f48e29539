// What the reference computes on: views of host tensors, in the contract's names.
#pragma once
#include <array>
#include <cstdint>

#include "contract/tensor.hpp"

namespace sinktrap::reference {

// One forward call. All tensors are contiguous host memory of consistent shapes; whoever builds a Problem has
// checked that. Without a pool every token is served by the base model.
struct Problem {
  std::int64_t T = 0, n = 1, H = 1, F = 1, S = 0, R = 0, outer = 1;
  std::int32_t w13_layout = SINKTRAP_W13_INTERLEAVED;
  Element type = Element::bf16;                           // storage type
  Element gamma_type = Element::bf16;                     // storage type or f32
  const void* x = nullptr;                                // [T, H]
  const void* gammas = nullptr;                           // [T, n]
  const void* w13 = nullptr;                              // [n, 2F, H]
  const void* w2 = nullptr;                               // [n, H, F]
  std::array<const void*, SINKTRAP_BUFFER_COUNT> pool{};  // null: no pool
  const std::int32_t* token_slot = nullptr;               // [T]

  // Row of gate (half 0) or up (half 1) feature j inside w13[e].
  std::int64_t w13_row(int half, std::int64_t j) const {
    return w13_layout == SINKTRAP_W13_INTERLEAVED ? 2 * j + half : half * F + j;
  }
};

}  // namespace sinktrap::reference
