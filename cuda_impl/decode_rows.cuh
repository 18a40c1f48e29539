// What the decode pass reads, row by row: the shape of its two passes over the weights, and which row of
// which operand an index stands for. Part of decode.cu.
#pragma once
#include "cuda_impl/pieces.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

constexpr int kWarp = 32, kTokens = static_cast<int>(kDecodeTokens);
constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kWarpRows = 2;  // of one warp: an operand read from shared memory serves both
constexpr int kBlockRows = kWarps * kWarpRows;
constexpr int kChunk = kWarp * kVector;  // columns of K that a warp reads at once
// Warps that keep a GPU of some 130 processors busy, at 16 warps on each; K is cut until there are as many.
constexpr std::int64_t kWantedWarps = 2048;

enum class Pass { up, down };

// One pass over the weights: K as `segments` of `length`, cut into chunks.
template <Pass kPass>
struct Shape {
  std::int64_t length, segments, base_rows, lora_rows, splits;
  __host__ __device__ explicit Shape(const ForwardView& f)
      : length(kPass == Pass::up ? f.H : f.F),
        segments(kPass == Pass::up ? 1 : f.n),
        base_rows(kPass == Pass::up ? f.n * 2 * f.F : f.H),
        lora_rows(kPass == Pass::up ? f.outer * 2 * f.R : f.outer * f.R),
        splits(kPass == Pass::up ? f.up_splits : f.down_splits) {}
  __host__ __device__ std::int64_t segment_chunks() const { return (length + kChunk - 1) / kChunk; }
  __host__ __device__ std::int64_t chunks() const { return segments * segment_chunks(); }
};

// A row of weights and the tokens that it is for.
template <class Bits>
struct Row {
  const Bits* at;        // column 0 of segment 0
  std::int64_t stride;   // to the next segment
  std::int64_t only;     // the one segment that the row has; -1: all
  std::int64_t place;    // row of `partial`
  std::uint32_t tokens;  // 0: no such row
};

// The tokens of the u-th distinct slot of the batch, and the slot; no tokens when there are fewer.
struct SlotTokens {
  std::int64_t slot;
  std::uint32_t tokens;
};
__device__ inline SlotTokens slot_in_use(const ForwardView& f, std::int64_t u) {
  const auto tokens = static_cast<int>(f.T);
  std::uint32_t seen = 0;
  for (int t = 0; t < tokens; ++t) {
    const std::int32_t slot = f.token_slot[t];
    if (slot < 0 || (seen >> t & 1u)) continue;
    std::uint32_t same = 0;
    for (int other = t; other < tokens; ++other)
      if (f.token_slot[other] == slot) same |= 1u << other;
    if (u-- == 0) return {slot, same};
    seen |= same;
  }
  return {-1, 0};
}

template <Pass kPass, class Bits>
__device__ Row<Bits> find_row(const ForwardView& f, const Shape<kPass>& shape, std::int64_t index) {
  Row<Bits> row{nullptr, 0, -1, index, 0};
  if (index < shape.base_rows) {
    row.at = static_cast<const Bits*>(kPass == Pass::up ? f.w13 : f.w2) + index * shape.length;
    row.stride = f.H * f.F;  // of w2, the only one with several segments
    row.tokens = f.T < kTokens ? (1u << f.T) - 1 : 0xffffffffu;
    return row;
  }
  if (shape.lora_rows == 0) return row;
  const std::int64_t lora = index - shape.base_rows, r = lora % shape.lora_rows;
  const SlotTokens in_use = slot_in_use(f, lora / shape.lora_rows);
  row.tokens = in_use.tokens;
  row.place = shape.base_rows + r;
  if (row.tokens == 0) return row;
  if (kPass == Pass::up) {
    row.at = static_cast<const Bits*>(f.pool.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A]) +
             (in_use.slot * shape.lora_rows + r) * f.H;
  } else if (f.pool.a_cat != nullptr) {
    row.at = static_cast<const Bits*>(f.pool.a_cat) + (in_use.slot * f.R + r) * f.n * f.F;
    row.stride = f.F;
  } else {
    row.at = static_cast<const Bits*>(f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_A]) +
             (in_use.slot * shape.lora_rows + r) * f.F;
    row.only = r / f.R;
  }
  return row;
}

}  // namespace
}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
