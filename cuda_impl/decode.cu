// The decode pass: at most 32 tokens, bound by reading weights, each of them once.
//
//   sums<up>     w13 rows . x, and gate_up_lora_a rows . x of the slots in use: one warp: two rows, part of K
//   collect      adds the parts of the LoRA sums: the bridge
//   activate     adds the parts of the w13 sums and the delta of the token's slot, silu, gammas
//   sums<down>   w2 rows . act over all experts, and down_lora_a rows . act
//   collect      the down bridge
//   finish       adds the parts of the w2 sums and the delta, stores out
//
// K is cut by shape alone and parts are added in ascending order, so the bits repeat and do not depend on the
// batch. A lane of `activate`, `collect` and `finish` is a token. Every sum belongs to one row and one token:
// nothing of another token or slot enters it, and no intermediate leaves f32.
#include "cuda_impl/decode_rows.cuh"
#include "cuda_impl/kernel_fault.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// A chunk of the operand for every token: f32, and so that the lanes of a warp read 16 bytes side by side:
// column 8 l + i of a token lies at i / 4 * 128 + 4 l + i % 4. Four columns more keep the tokens, which are
// written side by side, in different banks.
constexpr int kOperandPitch = kChunk + 4;
struct Operand {
  alignas(16) float v[kTokens][kOperandPitch];
};
__device__ inline int operand_place(int column) {
  return column % 8 / 4 * (kChunk / 2) + column / 8 * 4 + column % 4;
}
struct alignas(16) FourFloats {
  float v[4];
};

// By the whole block; columns past the segment are zero.
template <class E, Pass kPass>
__device__ void stage(const ForwardView& f, const Shape<kPass>& shape, std::int64_t segment, std::int64_t k,
                      int x_width, Operand& operand) {
  const auto tokens = static_cast<int>(f.T);
  if constexpr (kPass == Pass::up) {
    const auto* x = static_cast<const typename E::Bits*>(f.x);
    for (int i = static_cast<int>(threadIdx.x); i < tokens * kWarp; i += kThreads) {
      const int token = i / kWarp, lane = i % kWarp;
      const std::int64_t column = k + std::int64_t{lane} * kVector;
      const auto eight = load_eight(x + token * f.H + column, f.H - column, x_width);
      for (int j = 0; j < kVector; ++j)
        operand.v[token][operand_place(lane * kVector + j)] = E::load(eight.v[j]);
    }
  } else {
    const float* act = static_cast<const float*>(f.act) + (segment * f.F + k) * kTokens;
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kTokens; i += kThreads) {
      const int column = i / kTokens, token = i % kTokens;
      if (token < tokens) operand.v[token][operand_place(column)] = k + column < shape.length ? act[i] : 0.0f;
    }
  }
}

// Lane t gets the sum over the lanes, ascending, of v[t], through `memory` of the warp's own: [token][lane],
// with the lanes of a row exchanged so that neither direction meets in a bank.
using WarpSums = float[kTokens * kWarp];
__device__ inline float sum_of_lanes(const float (&v)[kTokens], int tokens, float* memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // What a row before this one left has been read.
  if (!faulty(Fault::lane_sums_overwritten)) __syncwarp();
  SINKTRAP_UNROLL
  for (int t = 0; t < kTokens; ++t)
    if (t < tokens) memory[t * kWarp + (lane ^ t)] = v[t];
  if (!faulty(Fault::lane_sums_unpublished)) __syncwarp();
  float sum = 0.0f;
  if (lane < tokens)
    for (int l = 0; l < kWarp; ++l) sum = sum + memory[lane * kWarp + (l ^ lane)];
  return sum;
}

template <class E, Pass kPass>
__device__ __forceinline__ void sums(const ForwardView& f, int x_width, int row_width) {
  using Bits = typename E::Bits;
  const Shape<kPass> shape(f);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t split = blockIdx.y;
  auto& operand = simt::shared<Operand, struct DecodeOperand>();

  Row<Bits> rows[kWarpRows];
  SINKTRAP_UNROLL
  for (int r = 0; r < kWarpRows; ++r)
    rows[r] = find_row<kPass, Bits>(f, shape,
                                    (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * kWarpRows + r);
  float acc[kWarpRows][kTokens];
  SINKTRAP_UNROLL
  for (auto& row : acc) {
    SINKTRAP_UNROLL
    for (float& v : row) v = 0.0f;
  }

  const std::int64_t last = shape.chunks() * (split + 1) / shape.splits;
  for (std::int64_t chunk = shape.chunks() * split / shape.splits; chunk < last; ++chunk) {
    const std::int64_t segment = chunk / shape.segment_chunks(), k = chunk % shape.segment_chunks() * kChunk;
    if (!faulty(Fault::operand_restaged)) __syncthreads();
    stage<E, kPass>(f, shape, segment, k, x_width, operand);
    if (!faulty(Fault::operand_unpublished)) __syncthreads();
    const std::int64_t column = k + std::int64_t{lane} * kVector;
    float w[kWarpRows][kVector];
    std::uint32_t wanted[kWarpRows];
    SINKTRAP_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      wanted[r] = rows[r].only < 0 || rows[r].only == segment ? rows[r].tokens : 0;
      Eight<Bits> eight{};
      if (wanted[r] != 0)
        eight = load_eight(rows[r].at + (rows[r].only < 0 ? segment * rows[r].stride : 0) + column,
                           shape.length - column, row_width);
      for (int j = 0; j < kVector; ++j) w[r][j] = E::load(eight.v[j]);
    }
    SINKTRAP_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      if (t >= f.T) continue;
      const auto low = *reinterpret_cast<const FourFloats*>(&operand.v[t][lane * 4]),
                 high = *reinterpret_cast<const FourFloats*>(&operand.v[t][kChunk / 2 + lane * 4]);
      SINKTRAP_UNROLL
      for (int r = 0; r < kWarpRows; ++r) {
        if (!(wanted[r] >> t & 1u)) continue;
        for (int j = 0; j < 4; ++j) acc[r][t] = fmaf(w[r][j], low.v[j], acc[r][t]);
        for (int j = 0; j < 4; ++j) acc[r][t] = fmaf(w[r][j + 4], high.v[j], acc[r][t]);
      }
    }
  }

  const std::int64_t partial_rows = shape.base_rows + shape.lora_rows;
  static_assert(sizeof(Operand) >= kWarps * sizeof(WarpSums));
  float* sums = &operand.v[0][0] + warp * kTokens * kWarp;
  if (!faulty(Fault::sums_over_operand)) __syncthreads();  // the operand has been read
  SINKTRAP_UNROLL
  for (int r = 0; r < kWarpRows; ++r) {
    if (rows[r].tokens == 0) continue;  // of the whole warp
    const float sum = sum_of_lanes(acc[r], static_cast<int>(f.T), sums);
    if (!(rows[r].tokens >> lane & 1u)) continue;
    if (faulty(Fault::split_k_by_atomics))
      atomicAdd(&f.partial[rows[r].place * kDecodeTokens + lane], sum);
    else
      f.partial[(split * partial_rows + rows[r].place) * kDecodeTokens + lane] = sum;
  }
}

// One block a processor is asked for, so that ptxas does not spill to stay below 128 registers.
template <class E, Pass kPass>
__global__ void __launch_bounds__(kThreads, 1) sums_kernel(ForwardView f, int x_width, int row_width) {
  sums<E, kPass>(f, x_width, row_width);
}

// The parts of one row for one token, in ascending order.
template <Pass kPass>
__device__ float add_parts(const ForwardView& f, const Shape<kPass>& shape, std::int64_t row,
                           std::int64_t token) {
  const float* at = f.partial + row * kDecodeTokens + token;
  float sum = at[0];
  if (faulty(Fault::split_k_by_atomics)) return sum;
  for (std::int64_t split = 1; split < shape.splits; ++split)
    sum = sum + at[split * (shape.base_rows + shape.lora_rows) * kDecodeTokens];
  return sum;
}

// Where a thread of the kernels below is: a row for each warp of a grid in x, a token for each lane.
struct Place {
  std::int64_t row, token;
};
__device__ Place place() {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  return {i / kDecodeTokens, i % kDecodeTokens};
}

template <Pass kPass>
__device__ inline void collect(const ForwardView& f, const Place& at) {
  const Shape<kPass> shape(f);
  if (at.row >= shape.lora_rows || slot_of(f, at.token) < 0) return;
  static_cast<float*>(kPass == Pass::up ? f.bridge : f.down_bridge)[at.row * kDecodeTokens + at.token] =
      add_parts(f, shape, shape.base_rows + at.row, at.token);
}
template <Pass kPass>
__global__ void collect_kernel(ForwardView f) {
  collect<kPass>(f, place());
}

// A row of a LoRA B factor with a token's bridge.
template <class E>
__device__ float expand(const typename E::Bits* row, const float* bridge, std::int64_t R) {
  float sum = 0.0f;
  for (std::int64_t q = 0; q < R; ++q) sum = fmaf(E::load(row[q]), bridge[q * kDecodeTokens], sum);
  return sum;
}

template <class E>
__global__ void activate_kernel(ForwardView f) {
  const Shape<Pass::up> shape(f);
  const Place at = place();
  if (at.row >= f.n * f.F || at.token >= f.T) return;
  const std::int64_t e = at.row / f.F, j = at.row % f.F;
  const std::int64_t first = e * 2 * f.F;
  float gate = add_parts(f, shape, first + (f.contiguous_w13 ? j : 2 * j), at.token);
  float up = add_parts(f, shape, first + (f.contiguous_w13 ? f.F + j : 2 * j + 1), at.token);
  if (const std::int64_t slot = slot_of(f, at.token); slot >= 0) {
    const std::int64_t o = f.outer == 1 ? 0 : e;
    const float* bridge = static_cast<const float*>(f.bridge) + o * 2 * f.R * kDecodeTokens + at.token;
    // Row 2j holds the gate in columns 0 .. R-1, row 2j+1 the up in R .. 2R-1.
    const auto* w1 = static_cast<const typename E::Bits*>(f.pool.w1_delta) +
                     (slot * f.n * 2 * f.F + first + 2 * j) * 2 * f.R;
    gate = gate + expand<E>(w1, bridge, f.R);
    up = up + expand<E>(w1 + 3 * f.R, bridge + f.R * kDecodeTokens, f.R);
  }
  static_cast<float*>(f.act)[at.row * kDecodeTokens + at.token] =
      activation<E>(f, gate, up, gamma_of<E>(f, at.token, e));
}

template <class E>
__device__ inline void finish(const ForwardView& f, const Place& at) {
  const Shape<Pass::down> shape(f);
  if (at.row >= f.H || at.token >= f.T || !permitted(f)) return;
  float sum = add_parts(f, shape, at.row, at.token);
  if (const std::int64_t slot = slot_of(f, at.token); slot >= 0) {
    // Rows of b_cat hold all experts side by side, as the down bridge does.
    const void* operand =
        f.pool.b_cat != nullptr ? f.pool.b_cat : f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_B];
    const auto* row = static_cast<const typename E::Bits*>(operand) + (slot * f.H + at.row) * f.outer * f.R;
    sum = sum + expand<E>(row, static_cast<const float*>(f.down_bridge) + at.token, f.outer * f.R);
  }
  static_cast<typename E::Bits*>(f.out)[at.token * f.H + at.row] = E::store(sum);
}
template <class E>
__global__ void finish_kernel(ForwardView f) {
  finish<E>(f, place());
}

#if defined(SINKTRAP_KERNEL_MUTANTS)
// The down pass in one launch: the block that comes last, by a counter, does what collect and finish do.
// Legal with its fences, and there to be one without.
unsigned blocks_done;
template <class E>
__global__ void sums_and_finish_kernel(ForwardView f, int x_width, int row_width) {
  sums<E, Pass::down>(f, x_width, row_width);
  auto& last = simt::shared<int, struct IsLastBlock>();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (!faulty(Fault::flag_without_fence)) __threadfence();
    last = atomicAdd(&blocks_done, 1u) == gridDim.x * gridDim.y - 1;
    __threadfence();
  }
  __syncthreads();
  if (last == 0) return;
  const auto step = static_cast<std::int64_t>(kThreads);
  for (std::int64_t i = threadIdx.x; i < f.outer * f.R * kDecodeTokens; i += step)
    collect<Pass::down>(f, {i / kDecodeTokens, i % kDecodeTokens});
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < f.H * kDecodeTokens; i += step)
    finish<E>(f, {i / kDecodeTokens, i % kDecodeTokens});
}
#endif

// Whether the launch of the down sums finishes, too: among the mutants only.
inline bool fused() { return faulty(Fault::sums_and_finish) || faulty(Fault::flag_without_fence); }

template <class E, Pass kPass>
bool run_sums(const ForwardView& f) {
  const Shape<kPass> shape(f);
  // No more slots can be in use than there are tokens.
  const std::int64_t slots = f.pool.S < f.T ? f.pool.S : f.T;
  const std::int64_t rows = shape.base_rows + (shape.lora_rows > 0 ? slots * shape.lora_rows : 0);
  const dim3 grid(static_cast<unsigned>((rows + kBlockRows - 1) / kBlockRows),
                  static_cast<unsigned>(shape.splits));
  const auto width = [](const void* a, const void* b, std::int64_t stride) {
    const std::int32_t one = access_width(a, 2, {stride}), other = access_width(b, 2, {stride});
    return one < other ? one : other;
  };
  const bool up = kPass == Pass::up;
  const void* lora = up                        ? f.pool.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A]
                     : f.pool.a_cat != nullptr ? f.pool.a_cat
                                               : f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_A];
  const std::int32_t x_width = access_width(f.x, 2, {f.H}),
                     row_width = width(up ? f.w13 : f.w2, lora, shape.length);
#if defined(SINKTRAP_KERNEL_MUTANTS)
  const auto parts = static_cast<std::uint64_t>(shape.base_rows + shape.lora_rows) * kDecodeTokens;
  if (faulty(Fault::split_k_by_atomics) && !simt::fill(f.partial, 0, parts * sizeof(float))) return false;
  if (fused() && !up)
    return simt::fill(&blocks_done, 0, sizeof blocks_done) &&
           simt::launch({grid, kThreads}, sums_and_finish_kernel<E>, f, x_width, row_width);
#endif
  return simt::launch({grid, kThreads}, sums_kernel<E, kPass>, f, x_width, row_width);
}

template <class E>
bool run(const ForwardView& f) {
  const auto launch = [&](std::int64_t rows, void (*kernel)(ForwardView)) {
    return simt::launch({static_cast<unsigned>((rows + kWarps - 1) / kWarps), kThreads}, kernel, f);
  };
  const bool pool = f.R > 0;
  return run_sums<E, Pass::up>(f) && (!pool || launch(f.outer * 2 * f.R, collect_kernel<Pass::up>)) &&
         launch(f.n * f.F, activate_kernel<E>) && run_sums<E, Pass::down>(f) &&
         (fused() ||
          ((!pool || launch(f.outer * f.R, collect_kernel<Pass::down>)) && launch(f.H, finish_kernel<E>)));
}

template <Pass kPass>
std::int64_t splits_of(const ForwardView& f) {
  const Shape<kPass> shape(f);
  // A layer small enough for a test has as many parts as chunks, and a loop of one.
  if (faulty(Fault::operand_restaged)) return 1;
  const std::int64_t warps = (shape.base_rows + kWarpRows - 1) / kWarpRows;
  const std::int64_t wanted = (kWantedWarps + warps - 1) / warps;
  return wanted < shape.chunks() ? wanted : shape.chunks();
}

}  // namespace

void choose_splits(ForwardView& f) {
  f.up_splits = splits_of<Pass::up>(f);
  f.down_splits = splits_of<Pass::down>(f);
}

bool run_decode(const ForwardView& view) {
  switch (view.type) {
    case Type::bf16:
      return run<Bf16>(view);
    case Type::f16:
      return run<F16>(view);
    case Type::f32:
      return false;  // create refuses it
  }
  return false;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
