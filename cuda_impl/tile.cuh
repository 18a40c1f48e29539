// The tile product behind the tiled and mma passes. A block computes kTokens x kRows sums over K:
//
//   C[t, r] = sum over base.K of base.a[t] * base.b[r]  +  sum over lora.K of lora.a[t] * lora.b[slot of
//   t][r]
//
// as one loop over steps of kStep columns: first those of the base operands, then, for each slot that a token
// of the tile has, those of its LoRA operands. So the LoRA term extends K and needs no buffer. Both operands
// of a step go through shared memory, kStages deep, with cp.async; what lies outside a row, a matrix or a
// slot is zero there. Steps of a slot change only the rows of its tokens: 0 * infinity of a neighbour must
// not become a NaN.
#pragma once
#include "cuda_impl/kernel_fault.cuh"
#include "cuda_impl/pieces.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// Two operands with K in common. Strides count elements. Rows of `a` are tokens, rows of `b` are outputs.
struct Part {
  const void *a, *b;
  std::int64_t K, segments;       // K of each segment; segments 0: no such part
  std::int64_t a_row, a_segment;  // strides
  std::int64_t b_row, b_half, b_segment, b_slot;
  std::int64_t a_block, b_block;  // of blocks of rows (an expert or an outer factor)
  std::int32_t a_width, b_width;  // access_width
};

// A launch. Output rows come in `blocks` of `rows`; with two halves a tile has gate rows and the up rows of
// the same features, and segment s of the LoRA part belongs to half s.
struct Product {
  Part base, lora;
  std::int64_t rows, blocks;
  void* out;
};

inline constexpr int kTileThreads = 128;
inline constexpr int kStep = 32;  // columns of K: four 16-byte vectors
// Elements from one row of a tile in shared memory to the next: 80 bytes, so that the eight rows of a matrix
// that ldmatrix reads lie in different banks.
inline constexpr int kPitch = kStep + kVector;

// Where a block is in its loop.
struct Cursor {
  std::int64_t k, segment;
  int slot;  // position among the tile's slots; -1: base
};

// The slots of a tile's tokens, in shared memory.
template <int kTokens>
struct TileSlots {
  std::int32_t of_token[kTokens];  // -1: none
  std::int32_t first[kTokens];     // 1: no earlier token of the tile has the same slot
  std::int32_t distinct[kTokens];
  std::int32_t count;
};

// To be called by the whole block; the caller waits for the block before it reads.
template <int kTokens>
__device__ inline void find_slots(const ForwardView& f, std::int64_t first_token, TileSlots<kTokens>& slots) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kTokens) slots.of_token[i] = static_cast<std::int32_t>(slot_of(f, first_token + i));
  if (!faulty(Fault::slots_unordered)) __syncthreads();
  if (i < kTokens) {
    bool first = slots.of_token[i] >= 0;
    for (int earlier = 0; earlier < i; ++earlier)
      first = first && slots.of_token[earlier] != slots.of_token[i];
    slots.first[i] = first;
  }
  __syncthreads();
  if (i < kTokens) {
    int place = 0;
    for (int earlier = 0; earlier < i; ++earlier) place += slots.first[earlier];
    if (slots.first[i]) slots.distinct[place] = slots.of_token[i];
    if (i == kTokens - 1) slots.count = place + slots.first[i];
  }
}

template <class Tile>
struct TileMemory {
  using Bits = typename Tile::Bits;
  alignas(16) Bits a[Tile::kStages][Tile::kTokens * kPitch];
  alignas(16) Bits b[Tile::kStages][Tile::kRows * kPitch];
  TileSlots<Tile::kTokens> slots;
};

// One block at work on one tile.
template <class Tile, bool kHalves>
class TileLoop {
 public:
  using Bits = typename Tile::Bits;
  static constexpr int kHalfRows = Tile::kRows / 2;

  __device__ TileLoop(const ForwardView& f, const Product& p, std::int64_t block, std::int64_t first_token,
                      std::int64_t first_row, TileMemory<Tile>& memory)
      : f_(f), p_(p), block_(block), first_token_(first_token), first_row_(first_row), memory_(memory) {}

  __device__ void run(Tile& tile) {
    find_slots(f_, first_token_, memory_.slots);
    if (!faulty(Fault::slots_unpublished)) __syncthreads();
    const std::int64_t tokens = f_.T - first_token_, rows = p_.rows - first_row_;
    // Rows of the tile's two halves that exist: a half of the features, or of a run of rows.
    const auto in_half = [rows](int half) {
      const std::int64_t there = kHalves ? rows : rows - std::int64_t{half} * kHalfRows;
      return static_cast<int>(there < 0 ? 0 : there < kHalfRows ? there : kHalfRows);
    };
    Extent extent = {
        static_cast<int>(tokens < Tile::kTokens ? tokens : Tile::kTokens), {in_half(0), in_half(1)}, kStep};
    Cursor load = {0, 0, p_.base.segments > 0 ? -1 : 0}, use = load;
    for (int stage = 0; stage < Tile::kStages - 1; ++stage) fetch(load, stage);
    for (int stage = 0; !done(use); stage = stage + 1 < Tile::kStages ? stage + 1 : 0) {
      const int next = faulty(Fault::stage_refilled) ? stage : stage > 0 ? stage - 1 : Tile::kStages - 1;
      if (faulty(Fault::wait_one_short))
        simt::cp_async_wait<Tile::kStages - 1>();
      else
        simt::cp_async_wait<Tile::kStages - 2>();
      if (faulty(Fault::fetch_before_barrier)) fetch(load, next);
      // After it everyone has this stage, and nobody still reads the one before it, which is filled next.
      if (!faulty(Fault::stage_unpublished)) __syncthreads();
      if (!faulty(Fault::fetch_before_barrier)) fetch(load, next);
      extent.columns = columns_of(use);
      if (use.slot < 0)
        tile.template step<false>(memory_.a[stage], memory_.b[stage], extent, 3u, memory_.slots.of_token, -1);
      else
        tile.template step<true>(memory_.a[stage], memory_.b[stage], extent, halves_of(use),
                                 memory_.slots.of_token, memory_.slots.distinct[use.slot]);
      advance(use);
    }
    simt::cp_async_wait<0>();
  }

  // Tokens of the tile, rows in each half, and columns of a step, that exist.
  struct Extent {
    int tokens, rows[2], columns;
  };

 private:
  __device__ bool done(const Cursor& c) const { return c.slot >= memory_.slots.count || empty(c); }
  // A base part with no pool behind it ends in a LoRA part of no segments.
  __device__ bool empty(const Cursor& c) const { return c.slot >= 0 && p_.lora.segments == 0; }
  __device__ unsigned halves_of(const Cursor& c) const {
    return kHalves ? 1u << static_cast<unsigned>(c.segment) : 3u;
  }

  __device__ int columns_of(const Cursor& c) const {
    const std::int64_t left = (c.slot < 0 ? p_.base.K : p_.lora.K) - c.k;
    return static_cast<int>(left < kStep ? left : kStep);
  }

  __device__ void advance(Cursor& c) const {
    const bool base = c.slot < 0;
    c.k += kStep;
    if (c.k < (base ? p_.base.K : p_.lora.K)) return;
    c.k = 0;
    if (++c.segment < (base ? p_.base.segments : p_.lora.segments)) return;
    c.segment = 0;
    ++c.slot;
  }

  // Starts the copies of one step, closes their group and moves on. After the last step the group is empty:
  // the count of groups that a wait leaves stays right.
  __device__ void fetch(Cursor& c, int stage) {
    if (!done(c)) {
      if (c.slot < 0)
        fetch_part<false>(p_.base, c, -1, memory_.a[stage], memory_.b[stage]);
      else
        fetch_part<true>(p_.lora, c, memory_.slots.distinct[c.slot], memory_.a[stage], memory_.b[stage]);
      advance(c);
    }
    simt::cp_async_commit();
  }

  template <bool kLora>
  __device__ void fetch_part(const Part& part, const Cursor& c, std::int32_t slot, Bits* a, Bits* b) const {
    constexpr int kVectors = kStep / kVector, kRowsAtOnce = kTileThreads / kVectors;
    const int vector = static_cast<int>(threadIdx.x) % kVectors,
              start = static_cast<int>(threadIdx.x) / kVectors;
    const std::int64_t k = c.k + std::int64_t{vector} * kVector;
    const Bits* from_a =
        static_cast<const Bits*>(part.a) + block_ * part.a_block + c.segment * part.a_segment + k;
    for (int row = start; row < Tile::kTokens; row += kRowsAtOnce) {
      const std::int64_t token = first_token_ + row;
      const bool there = kLora ? memory_.slots.of_token[row] == slot : token < f_.T;
      copy_eight(a + row * kPitch + vector * kVector, from_a + token * part.a_row, there ? part.K - k : 0,
                 part.a_width);
    }
    const Bits* from_b =
        static_cast<const Bits*>(part.b) + block_ * part.b_block + c.segment * part.b_segment + k;
    if constexpr (kLora) from_b += slot * part.b_slot;
    for (int row = start; row < Tile::kRows; row += kRowsAtOnce) {
      const int half = row / kHalfRows;
      if (kHalves && kLora && half != c.segment) continue;  // nobody reads them in this step
      const std::int64_t r = first_row_ + (kHalves ? row % kHalfRows : row);
      copy_eight(b + row * kPitch + vector * kVector,
                 from_b + r * part.b_row + (kHalves ? half * part.b_half : std::int64_t{0}),
                 r < p_.rows ? part.K - k : 0, part.b_width);
    }
  }

  const ForwardView& f_;
  const Product& p_;
  const std::int64_t block_, first_token_, first_row_;
  TileMemory<Tile>& memory_;
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
