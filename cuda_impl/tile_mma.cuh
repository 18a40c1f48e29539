// A tile on tensor cores: 64 tokens x 128 rows, four warps of 32 x 64 (two halves of 32 rows), mma.sync
// m16n8k16 with f32 accumulators. Half h of a warp's rows are rows h * 64 + (warp % 2) * 32 ... of the tile,
// so that a thread has gate and up of the same features.
#pragma once
#include "cuda_impl/tile.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

__device__ inline void multiply(Bf16, float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  simt::mma_bf16(d, a, b);
}
__device__ inline void multiply(F16, float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  simt::mma_f16(d, a, b);
}

template <class E>
class MmaTile {
 public:
  using Bits = typename E::Bits;
  static constexpr int kTokens = 64, kRows = 128;
  // 3 x 15360 bytes: what static shared memory (48 KiB) holds.
  static constexpr int kStages = 3;

  __device__ MmaTile() {
    SINKTRAP_UNROLL
    for (auto& rows : acc_) SINKTRAP_UNROLL
    for (auto& fragment : rows) SINKTRAP_UNROLL
    for (float& v : fragment) v = 0.0f;
  }

  // One step; with kSelect only the rows of tokens with this slot change. halves: bit h for half h.
  template <bool kSelect, class Extent>
  __device__ void step(const Bits* a, const Bits* b, const Extent& extent, unsigned halves,
                       const std::int32_t* slots, std::int32_t slot) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // What each lane addresses for ldmatrix.x4: rows 0..15 and columns 0 or 8 of a; of b rows 0..7 with
    // columns 0 and 8, then rows 8..15.
    const Bits* a_row = a + (token_base() + lane % 16) * kPitch + lane / 16 * 8;
    const Bits* b_row = b + (row_base() + lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 8;
    SINKTRAP_UNROLL
    for (int k = 0; k < kStep; k += 16) {
      if (k >= extent.columns) break;  // a rank of 16 is half a step
      std::uint32_t fa[2][4];
      SINKTRAP_UNROLL
      for (int m = 0; m < 2; ++m)
        if (token_base() + m * 16 < extent.tokens) simt::ldmatrix_x4(fa[m], a_row + m * 16 * kPitch + k);
      SINKTRAP_UNROLL
      for (int pair = 0; pair < 4; ++pair) {  // 16 rows of b at a time, two pairs to a half
        const int half = pair / 2, first = pair % 2 * 16;
        if (!(halves >> half & 1u) || row_base() + first >= extent.rows[half]) continue;
        std::uint32_t fb[4];
        simt::ldmatrix_x4(fb, b_row + static_cast<std::ptrdiff_t>((half * kRows / 2 + first) * kPitch) + k);
        const std::uint32_t low[2] = {fb[0], fb[1]}, high[2] = {fb[2], fb[3]};
        SINKTRAP_UNROLL
        for (int m = 0; m < 2; ++m) {
          if (token_base() + m * 16 >= extent.tokens) continue;
          add<kSelect>(acc_[m][pair * 2], fa[m], low, m, slots, slot);
          if (row_base() + first + 8 < extent.rows[half])
            add<kSelect>(acc_[m][pair * 2 + 1], fa[m], high, m, slots, slot);
        }
      }
    }
  }

  // f(token, row in half, sum in half 0, sum in half 1) for this thread's part of the tile.
  template <class F>
  __device__ void each(F f) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    SINKTRAP_UNROLL
    for (int m = 0; m < 2; ++m) SINKTRAP_UNROLL
    for (int i = 0; i < 4; ++i) SINKTRAP_UNROLL
    for (int v = 0; v < 4; ++v)
      f(token_base() + m * 16 + lane / 4 + v / 2 * 8, row_base() + i * 8 + lane % 4 * 2 + v % 2,
        acc_[m][i][v], acc_[m][i + 4][v]);
  }

 private:
  __device__ static int token_base() { return static_cast<int>(threadIdx.x) / 64 * 32; }
  __device__ static int row_base() { return static_cast<int>(threadIdx.x) / 32 % 2 * 32; }

  template <bool kSelect>
  __device__ static void add(float (&acc)[4], const std::uint32_t (&fa)[4], const std::uint32_t (&fb)[2],
                             int m, const std::int32_t* slots, std::int32_t slot) {
    if constexpr (!kSelect) {
      multiply(E{}, acc, fa, fb);
    } else {
      float sum[4] = {acc[0], acc[1], acc[2], acc[3]};
      multiply(E{}, sum, fa, fb);
      const int token = token_base() + m * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
      SINKTRAP_UNROLL
      for (int v = 0; v < 4; ++v)
        if (slots[token + v / 2 * 8] == slot) acc[v] = sum[v];
    }
  }

  float acc_[2][8][4];  // [16 tokens][half, 8 rows][fragment]
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
