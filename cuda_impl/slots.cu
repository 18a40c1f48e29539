// Kernels on the pool: derived operands, loading, tensor-parallel shards, expansion and collapse. They move
// bits; only scaling * B computes. Each walks its target's elements with a stride of the whole grid.
#include "cuda_impl/grid.cuh"
#include "cuda_impl/kernel_fault.cuh"
#include "cuda_impl/number.cuh"
#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// Enough blocks to fill any current GPU several times over; more would only cost starts on the executor.
constexpr std::int64_t kMaxBlocks = 1024;
constexpr std::int64_t kMaxRows = 65535;  // CUDA's limit for the y axis of a grid

__device__ inline std::int64_t element_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

simt::Config over(std::int64_t elements) {
  const std::int64_t blocks = block_count(elements);
  return {static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), block_threads(elements)};
}

template <class Bits>
__device__ void w1_delta_of(const PoolView& p, std::int64_t slot) {
  const std::int64_t count = p.n * 2 * p.F * 2 * p.R;
  const Bits* b =
      static_cast<const Bits*>(p.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_B]) + slot * p.n * 2 * p.F * p.R;
  Bits* w1 = static_cast<Bits*>(p.w1_delta) + slot * count;
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t column = i % (2 * p.R), row = i / (2 * p.R);
    const std::int64_t e = row / (2 * p.F), j = row % (2 * p.F) / 2, half = row % 2;  // half 0 gate, 1 up
    w1[i] = column / p.R == half ? b[((e * 2 + half) * p.F + j) * p.R + column % p.R] : Bits{0};
  }
}

template <class Bits>
__device__ void a_cat_of(const PoolView& p, std::int64_t slot) {
  const std::int64_t count = p.R * p.n * p.F;
  const Bits* a = static_cast<const Bits*>(p.buffers[SINKTRAP_BUFFER_DOWN_LORA_A]) + slot * count;
  Bits* cat = static_cast<Bits*>(p.a_cat) + slot * count;
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t j = i % p.F, e = i / p.F % p.n, q = i / p.F / p.n;
    cat[i] = a[(e * p.R + q) * p.F + j];
  }
}

template <class Bits>
__device__ void b_cat_of(const PoolView& p, std::int64_t slot) {
  const std::int64_t count = p.H * p.n * p.R;
  const Bits* b = static_cast<const Bits*>(p.buffers[SINKTRAP_BUFFER_DOWN_LORA_B]) + slot * count;
  Bits* cat = static_cast<Bits*>(p.b_cat) + slot * count;
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t q = i % p.R, e = i / p.R % p.n, h = i / p.R / p.n;
    cat[i] = b[(e * p.H + h) * p.R + q];
  }
}

template <class Bits>
__global__ void w1_delta_kernel(PoolView p, std::int64_t slot) {
  w1_delta_of<Bits>(p, slot);
}
template <class Bits>
__global__ void a_cat_kernel(PoolView p, std::int64_t slot) {
  a_cat_of<Bits>(p, slot);
}
template <class Bits>
__global__ void b_cat_kernel(PoolView p, std::int64_t slot) {
  b_cat_of<Bits>(p, slot);
}

// Every slot has its row of blocks, whatever is marked when this is captured.
template <class Bits>
__global__ void derive_marked_kernel(StepView s) {
  if (s.verdict->code != SINKTRAP_OK) return;
  for (std::int64_t slot = blockIdx.y; slot < s.pool.S; slot += gridDim.y) {
    if (s.marks[slot] == 0) continue;
    w1_delta_of<Bits>(s.pool, slot);
    if (s.pool.a_cat != nullptr) a_cat_of<Bits>(s.pool, slot);
    if (s.pool.b_cat != nullptr) b_cat_of<Bits>(s.pool, slot);
  }
}
__global__ void clear_marks_kernel(StepView s) {
  if (s.verdict->code != SINKTRAP_OK) return;
  for (std::int64_t slot = thread_index(); slot < s.pool.S; slot += element_stride()) s.marks[slot] = 0;
}

template <class Bits>
bool derive_all_marked(const StepView& s) {
  simt::Config wide = over(s.pool.n * 2 * s.pool.F * 2 * s.pool.R);
  wide.grid.y = static_cast<unsigned>(s.pool.S < kMaxRows ? s.pool.S : kMaxRows);
  return simt::launch(wide, derive_marked_kernel<Bits>, s) &&
         simt::launch(over(s.pool.S), clear_marks_kernel, s);
}

template <class Bits>
bool derive(const PoolView& p, std::int64_t slot) {
  return simt::launch(over(p.n * 2 * p.F * 2 * p.R), w1_delta_kernel<Bits>, p, slot) &&
         (p.a_cat == nullptr || simt::launch(over(p.R * p.n * p.F), a_cat_kernel<Bits>, p, slot)) &&
         (p.b_cat == nullptr || simt::launch(over(p.H * p.n * p.R), b_cat_kernel<Bits>, p, slot));
}

// gate_up_lora_a [outer, 2R, H] of a slot: gate rows from 0, up rows from R.
template <class E>
__global__ void load_gate_up_a_kernel(AdapterView a) {
  using Bits = typename E::Bits;
  const std::int64_t count = a.outer * 2 * a.R * a.H;
  Bits* target = static_cast<Bits*>(a.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A]) + a.slot * count;
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t h = i % a.H, row = i / a.H % (2 * a.R), o = i / a.H / (2 * a.R), q = row % a.R;
    const auto* factor = static_cast<const Bits*>(row < a.R ? a.gate_a : a.up_a);
    const std::int64_t first_row = a.per_expert ? o * a.r : 0;
    target[i] = q < a.r ? factor[(first_row + q) * a.H + h] : Bits{0};
  }
}

// gate_up_lora_b [n, 2F, R] of a slot, from [n * 2 * F_all, r].
template <class E>
__global__ void load_gate_up_b_kernel(AdapterView a) {
  using Bits = typename E::Bits;
  const std::int64_t count = a.n * 2 * a.F * a.R;
  Bits* target = static_cast<Bits*>(a.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B]) + a.slot * count;
  const auto* factor = static_cast<const Bits*>(a.gate_up_b);
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t q = i % a.R, j = i / a.R % a.F, expert_half = i / a.R / a.F;
    const std::int64_t row = expert_half * a.F_all + a.first_feature + j;
    target[i] = q < a.r ? E::store(a.scaling * E::load(factor[row * a.r + q])) : Bits{0};
  }
}

// down_lora_a [n, R, F] of a slot, from rank-major [r, n * F_all].
template <class E>
__global__ void load_down_a_kernel(AdapterView a) {
  using Bits = typename E::Bits;
  const std::int64_t count = a.n * a.R * a.F;
  Bits* target = static_cast<Bits*>(a.pool[SINKTRAP_BUFFER_DOWN_LORA_A]) + a.slot * count;
  const auto* factor = static_cast<const Bits*>(a.down_a);
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t j = i % a.F, q = i / a.F % a.R, e = i / a.F / a.R;
    target[i] = q < a.r ? factor[(q * a.n + e) * a.F_all + a.first_feature + j] : Bits{0};
  }
}

// down_lora_b [outer, H, R] of a slot, from [H, r] or [n * H, r].
template <class E>
__global__ void load_down_b_kernel(AdapterView a) {
  using Bits = typename E::Bits;
  const std::int64_t count = a.outer * a.H * a.R;
  Bits* target = static_cast<Bits*>(a.pool[SINKTRAP_BUFFER_DOWN_LORA_B]) + a.slot * count;
  const auto* factor = static_cast<const Bits*>(a.down_b);
  for (std::int64_t i = thread_index(); i < count; i += element_stride()) {
    const std::int64_t q = i % a.R, h = i / a.R % a.H, o = i / a.R / a.H;
    const std::int64_t row = (a.per_expert ? o * a.H : 0) + h;
    target[i] = q < a.r ? E::store(a.scaling * E::load(factor[row * a.r + q])) : Bits{0};
  }
}

template <class E>
bool load(const AdapterView& a) {
  return simt::launch(over(a.outer * 2 * a.R * a.H), load_gate_up_a_kernel<E>, a) &&
         simt::launch(over(a.n * 2 * a.F * a.R), load_gate_up_b_kernel<E>, a) &&
         simt::launch(over(a.n * a.R * a.F), load_down_a_kernel<E>, a) &&
         simt::launch(over(a.outer * a.H * a.R), load_down_b_kernel<E>, a) && simt::synchronise();
}

template <class Bits>
__global__ void shard_gate_up_kernel(const Bits* full, Bits* shard, std::int64_t blocks, std::int64_t F,
                                     std::int64_t R, std::int64_t F_shard, std::int64_t first) {
  // blocks: slots times experts times the two halves, which are cut separately.
  for (std::int64_t i = thread_index(); i < blocks * F_shard * R; i += element_stride()) {
    const std::int64_t q = i % R, j = i / R % F_shard, block = i / R / F_shard;
    shard[i] = full[(block * F + first + j) * R + q];
  }
}

template <class Bits>
__global__ void shard_down_kernel(const Bits* full, Bits* shard, std::int64_t rows, std::int64_t F,
                                  std::int64_t F_shard, std::int64_t first) {
  for (std::int64_t i = thread_index(); i < rows * F_shard; i += element_stride())
    shard[i] = full[i / F_shard * F + first + i % F_shard];
}

template <class Bits>
__global__ void expand_kernel(const Bits* shared, Bits* per_expert, std::int64_t S, std::int64_t n,
                              std::int64_t block) {
  for (std::int64_t i = thread_index(); i < S * n * block; i += element_stride())
    per_expert[i] = shared[i / block / n * block + i % block];
}

template <class Bits>
__global__ void compare_kernel(const Bits* per_expert, std::int64_t S, std::int64_t n, std::int64_t block,
                               unsigned long long* different) {
  for (std::int64_t i = thread_index(); i < S * n * block; i += element_stride()) {
    const std::int64_t slot_expert = i / block, slot = slot_expert / n;
    if (per_expert[i] == per_expert[slot * n * block + i % block]) continue;
    const auto found = static_cast<unsigned long long>(slot_expert);
    if (!faulty(Fault::minimum_without_atomic))
      atomicMin(different, found);
    else if (found < *different)
      *different = found;
  }
}

}  // namespace

bool derive_slot(const PoolView& pool, std::int64_t slot, std::int64_t element_bytes) {
  return element_bytes == 2 ? derive<std::uint16_t>(pool, slot) : derive<std::uint32_t>(pool, slot);
}

bool derive_marked(const StepView& step, std::int64_t element_bytes) {
  return element_bytes == 2 ? derive_all_marked<std::uint16_t>(step) : derive_all_marked<std::uint32_t>(step);
}

bool load_slot(const AdapterView& adapter, Type type) {
  switch (type) {
    case Type::bf16:
      return load<Bf16>(adapter);
    case Type::f16:
      return load<F16>(adapter);
    case Type::f32:
      return load<F32>(adapter);
  }
  return false;
}

bool shard_gate_up(const void* full, void* shard, std::int64_t blocks, std::int64_t F, std::int64_t R,
                   std::int64_t F_shard, std::int64_t first, std::int64_t element_bytes) {
  const auto run = [&](auto bits) {
    using Bits = decltype(bits);
    return simt::launch(over(blocks * F_shard * R), shard_gate_up_kernel<Bits>,
                        static_cast<const Bits*>(full), static_cast<Bits*>(shard), blocks, F, R, F_shard,
                        first);
  };
  return element_bytes == 2 ? run(std::uint16_t{}) : run(std::uint32_t{});
}

bool shard_down(const void* full, void* shard, std::int64_t rows, std::int64_t F, std::int64_t F_shard,
                std::int64_t first, std::int64_t element_bytes) {
  const auto run = [&](auto bits) {
    using Bits = decltype(bits);
    return simt::launch(over(rows * F_shard), shard_down_kernel<Bits>, static_cast<const Bits*>(full),
                        static_cast<Bits*>(shard), rows, F, F_shard, first);
  };
  return element_bytes == 2 ? run(std::uint16_t{}) : run(std::uint32_t{});
}

bool expand_outer(const void* shared, void* per_expert, std::int64_t S, std::int64_t n, std::int64_t block,
                  std::int64_t element_bytes) {
  const auto run = [&](auto bits) {
    using Bits = decltype(bits);
    return simt::launch(over(S * n * block), expand_kernel<Bits>, static_cast<const Bits*>(shared),
                        static_cast<Bits*>(per_expert), S, n, block);
  };
  return element_bytes == 2 ? run(std::uint16_t{}) : run(std::uint32_t{});
}

bool compare_experts(const void* per_expert, std::int64_t S, std::int64_t n, std::int64_t block,
                     std::int64_t element_bytes, unsigned long long* different) {
  const auto run = [&](auto bits) {
    using Bits = decltype(bits);
    return simt::launch(over(S * n * block), compare_kernel<Bits>, static_cast<const Bits*>(per_expert), S, n,
                        block, different);
  };
  return element_bytes == 2 ? run(std::uint16_t{}) : run(std::uint32_t{});
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
