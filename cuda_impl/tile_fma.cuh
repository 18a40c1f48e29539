// A tile on the ordinary units: 32 tokens x 64 rows, each thread 4 tokens x 2 rows of each half, f32 fma.
#pragma once
#include "cuda_impl/tile.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

template <class E>
class FmaTile {
 public:
  using Bits = typename E::Bits;
  static constexpr int kTokens = 32, kRows = 64;
  static constexpr int kStages = 2;

  __device__ FmaTile() {
    SINKTRAP_UNROLL
    for (auto& row : acc_) SINKTRAP_UNROLL
    for (float& v : row) v = 0.0f;
  }

  template <bool kSelect, class Extent>
  __device__ void step(const Bits* a, const Bits* b, const Extent& extent, unsigned halves,
                       const std::int32_t* slots, std::int32_t slot) {
    bool wanted[kOwn];
    bool any = false;
    SINKTRAP_UNROLL
    for (int t = 0; t < kOwn; ++t) {
      wanted[t] = token_base() + t < extent.tokens && (!kSelect || slots[token_base() + t] == slot);
      any = any || wanted[t];
    }
    if (!any) return;
    for (int k = 0; k < extent.columns; k += 2) {
      float va[kOwn][2], vb[kOwn][2] = {};
      SINKTRAP_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        load_two(a + (token_base() + i) * kPitch + k, va[i]);
        if (halves >> (i / 2) & 1u) load_two(b + row_of(i) * kPitch + k, vb[i]);
      }
      SINKTRAP_UNROLL
      for (int t = 0; t < kOwn; ++t) SINKTRAP_UNROLL
      for (int i = 0; i < kOwn; ++i)
        if (wanted[t] && (halves >> (i / 2) & 1u)) SINKTRAP_UNROLL
      for (int j = 0; j < 2; ++j) acc_[t][i] = fmaf(va[t][j], vb[i][j], acc_[t][i]);
    }
  }

  template <class F>
  __device__ void each(F f) const {
    SINKTRAP_UNROLL
    for (int t = 0; t < kOwn; ++t) SINKTRAP_UNROLL
    for (int i = 0; i < 2; ++i) f(token_base() + t, row_of(i), acc_[t][i], acc_[t][i + 2]);
  }

 private:
  static constexpr int kOwn = 4;  // tokens, and rows, of a thread
  // Rows of a thread lie 16 apart: neighbouring threads then read neighbouring rows.
  __device__ static int token_base() { return static_cast<int>(threadIdx.x) / 16 * kOwn; }
  __device__ static int row_of(int i) {
    return i / 2 * (kRows / 2) + i % 2 * 16 + static_cast<int>(threadIdx.x) % 16;
  }
  __device__ static void load_two(const Bits* from, float (&to)[2]) {
    struct alignas(4) Two {
      Bits v[2];
    };
    const Two two = *reinterpret_cast<const Two*>(from);
    to[0] = E::load(two.v[0]);
    to[1] = E::load(two.v[1]);
  }

  float acc_[kOwn][kOwn];  // [token][half * 2 + row]
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
