// The forward pass as four tile products, for tiled.cu and mma.cu:
//
//   bridge       x with gate_up_lora_a of the token's slot
//   act          [x | bridge] with [w13 | w1_delta], then silu, product and gamma
//   down_bridge  act with down_lora_a (a_cat)
//   out          [act | down_bridge] with [w2 | down_lora_b (b_cat)]
//
// bridge, act and down_bridge are stored in the storage type: those are the seams. Of w1_delta only the
// blocks that are not zero are read: gate rows meet the gate bridge and up rows the up bridge.
#pragma once
#include <type_traits>

#include "cuda_impl/tile.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

enum class Output { bridge, act, out };

// What becomes of a tile's sums. `row` counts in its block of rows.
template <class E, Output kOutput>
__device__ inline void finish(const ForwardView& f, const Product& p, std::int64_t block, std::int64_t token,
                              std::int64_t row, float value) {
  using Bits = typename E::Bits;
  if (token >= f.T || row >= p.rows) return;
  if constexpr (kOutput == Output::bridge) {
    // Each R of rows (gate and up, or the one of down) begins at a multiple of R_pitch.
    const std::int64_t parts = p.rows / f.R, part = row / f.R;
    static_cast<Bits*>(p.out)[((token * p.blocks + block) * parts + part) * f.R_pitch + row % f.R] =
        E::store(value);
  } else if (permitted(f)) {
    static_cast<Bits*>(p.out)[token * f.H + row] = E::store(value);
  }
}

template <class E, class Tile, Output kOutput>
__global__ void __launch_bounds__(kTileThreads) product_kernel(ForwardView f, Product p) {
  constexpr bool kHalves = kOutput == Output::act;
  constexpr std::int64_t kWidth = kHalves ? Tile::kRows / 2 : Tile::kRows;
  const std::int64_t tiles = (p.rows + kWidth - 1) / kWidth;
  const std::int64_t block = blockIdx.x / tiles, first_row = blockIdx.x % tiles * kWidth;
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.z) * Tile::kTokens;
  auto& memory = simt::shared<TileMemory<Tile>, struct ProductMemory>();
  TileLoop<Tile, kHalves> loop(f, p, block, first_token, first_row, memory);
  Tile tile;
  loop.run(tile);
  tile.each([&](int t, int r, float low, float high) {
    const std::int64_t token = first_token + t, row = first_row + r;
    if constexpr (kHalves) {
      if (token >= f.T || row >= f.F) return;
      static_cast<typename E::Bits*>(p.out)[(token * f.n + block) * f.F_pitch + row] =
          E::store(activation<E>(f, low, high, gamma_of<E>(f, token, block)));
    } else if (kOutput != Output::bridge || memory.slots.of_token[t] >= 0) {
      finish<E, kOutput>(f, p, block, token, row, low);
      finish<E, kOutput>(f, p, block, token, row + Tile::kRows / 2, high);
    }
  });
}

// Strides decide how wide an operand may be read.
__host__ inline Part with_widths(Part p) {
  p.a_width = access_width(p.a, 2, {p.a_row, p.a_segment, p.a_block});
  p.b_width = access_width(p.b, 2, {p.b_row, p.b_half, p.b_segment, p.b_slot, p.b_block});
  return p;
}

__host__ inline Product bridge_product(const ForwardView& f) {
  Part lora{};
  lora.a = f.x, lora.a_row = f.H;
  lora.K = f.H, lora.segments = 1;
  lora.b = f.pool.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A];
  lora.b_row = f.H, lora.b_block = 2 * f.R * f.H, lora.b_slot = f.outer * lora.b_block;
  return {Part{}, with_widths(lora), 2 * f.R, f.outer, f.bridge};
}

__host__ inline Product act_product(const ForwardView& f) {
  Part base{}, lora{};
  base.a = f.x, base.a_row = f.H;
  base.K = f.H, base.segments = 1;
  base.b = f.w13, base.b_block = 2 * f.F * f.H;
  base.b_row = f.contiguous_w13 ? f.H : 2 * f.H, base.b_half = f.contiguous_w13 ? f.F * f.H : f.H;
  if (f.R > 0) {
    lora.a = f.bridge, lora.a_row = f.outer * 2 * f.R_pitch, lora.a_segment = f.R_pitch;
    lora.a_block = f.outer == 1 ? 0 : 2 * f.R_pitch;
    lora.K = f.R, lora.segments = 2;  // gate, up
    // Row 2j of w1_delta holds feature j's gate in columns 0 .. R-1, row 2j+1 its up in R .. 2R-1.
    lora.b = f.pool.w1_delta, lora.b_row = 4 * f.R, lora.b_segment = 3 * f.R;
    lora.b_block = 4 * f.R * f.F, lora.b_slot = f.n * lora.b_block;
  }
  return {with_widths(base), with_widths(lora), f.F, f.n, f.act};
}

__host__ inline Product down_bridge_product(const ForwardView& f) {
  Part lora{};
  lora.a = f.act, lora.a_row = f.n * f.F_pitch;
  lora.K = f.F;
  lora.b_slot = f.n * f.R * f.F;
  if (f.pool.a_cat != nullptr) {  // one sum over the features of all experts
    lora.segments = f.n, lora.a_segment = f.F_pitch;
    lora.b = f.pool.a_cat, lora.b_row = f.n * f.F, lora.b_segment = f.F;
  } else {
    lora.segments = 1, lora.a_block = f.F_pitch;
    lora.b = f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_A], lora.b_row = f.F, lora.b_block = f.R * f.F;
  }
  return {Part{}, with_widths(lora), f.R, f.outer, f.down_bridge};
}

__host__ inline Product out_product(const ForwardView& f) {
  Part base{}, lora{};
  base.a = f.act, base.a_row = f.n * f.F_pitch, base.a_segment = f.F_pitch;
  base.K = f.F, base.segments = f.n;
  base.b = f.w2, base.b_row = f.F, base.b_segment = f.H * f.F;
  if (f.R > 0) {
    lora.a = f.down_bridge, lora.a_row = f.outer * f.R_pitch, lora.a_segment = f.R_pitch;
    lora.K = f.R, lora.segments = f.outer;
    // Rows of b_cat hold all experts side by side; with one outer factor that is down_lora_b itself.
    lora.b = f.pool.b_cat != nullptr ? f.pool.b_cat : f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_B];
    lora.b_row = f.outer * f.R, lora.b_segment = f.R, lora.b_slot = f.H * lora.b_row;
  }
  return {with_widths(base), with_widths(lora), f.H, 1, f.out};
}

template <class E, class Tile, Output kOutput>
bool run_product(const ForwardView& f, const Product& p) {
  constexpr std::int64_t kWidth = kOutput == Output::act ? Tile::kRows / 2 : Tile::kRows;
  const auto tiles = static_cast<unsigned>((p.rows + kWidth - 1) / kWidth * p.blocks);
  const auto token_tiles = static_cast<unsigned>((f.T + Tile::kTokens - 1) / Tile::kTokens);
  return simt::launch({dim3(tiles, 1, token_tiles), kTileThreads}, product_kernel<E, Tile, kOutput>, f, p);
}

template <class E, class Tile>
bool run_tiles(const ForwardView& f) {
  const bool pool = f.R > 0;
  return (!pool || run_product<E, Tile, Output::bridge>(f, bridge_product(f))) &&
         run_product<E, Tile, Output::act>(f, act_product(f)) &&
         (!pool || run_product<E, Tile, Output::bridge>(f, down_bridge_product(f))) &&
         run_product<E, Tile, Output::out>(f, out_product(f));
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
