// The ordered forward pass, CONTRACT.md section 7: five kernels over f32 scratch in the packed order of
// records.hpp.
//
//   pack         x to f32, packed
//   bridge       gate_up_lora_a . x                      one thread: one row for one group of tokens
//   activation   w13 and w1_delta rows, silu, gammas     one thread: one feature of one expert
//   down_bridge  down_lora_a (a_cat) . act               one thread: one row
//   output       w2 rows and down_lora_b (b_cat)         one thread: one hidden element
//
// Every value is one ascending chain of fma in one thread, so no order depends on the launch. A LoRA row is
// read for the tokens of its own slot only, and an operand's zero blocks are not read at all: fma(0, v, acc)
// is not the identity when v is a NaN or infinity, or acc is -0. No kernel needs a barrier.
#include "cuda_impl/grid.cuh"
#include "cuda_impl/kernel_fault.cuh"
#include "cuda_impl/pieces.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// One f32 value for each token of a group.
struct Lanes {
  float v[kLanes];
};

__device__ inline Lanes zero() {
  Lanes z;
  for (float& lane : z.v) lane = 0.0f;
  return z;
}

__device__ inline float* floats(void* scratch) { return static_cast<float*>(scratch); }

// dot(row, v) for a group.
template <class E>
__device__ inline Lanes dot(const typename E::Bits* row, const float* packed, std::int64_t count) {
  Lanes acc = zero();
  for (std::int64_t k = 0; k < count; ++k) {
    const float w = E::load(row[k]);
    for (int l = 0; l < kLanes; ++l) acc.v[l] = fmaf(w, packed[k * kLanes + l], acc.v[l]);
  }
  return acc;
}

// Two rows at once: twice the independent chains for one pass over the values.
template <class E>
__device__ inline void dot(const typename E::Bits* row0, const typename E::Bits* row1, const float* packed,
                           std::int64_t count, Lanes& acc0, Lanes& acc1) {
  Lanes a = zero(), b = zero();
  for (std::int64_t k = 0; k < count; ++k) {
    const float w0 = E::load(row0[k]), w1 = E::load(row1[k]);
    for (int l = 0; l < kLanes; ++l) {
      const float v = packed[k * kLanes + l];
      a.v[l] = fmaf(w0, v, a.v[l]);
      b.v[l] = fmaf(w1, v, b.v[l]);
    }
  }
  acc0 = a;
  acc1 = b;
}

template <class E>
__device__ inline Lanes seam(const ForwardView& f, unsigned bit, Lanes values) {
  if (f.seams & bit)
    for (float& lane : values.v) lane = E::load(E::store(lane));
  return values;
}

// A group's bridge is read as a whole, and what becomes of the lanes of other slots is dropped: lanes that no
// slot writes are zero, so that nothing uninitialised is read.
__device__ inline void clear_unused(const ForwardView& f, std::int64_t group, float* bridge) {
  for (int l = 0; l < kLanes; ++l)
    if (slot_of(f, group * kLanes + l) < 0) bridge[l] = 0.0f;
}

// The slot of a lane's token.
__device__ inline std::int64_t slot_of(const ForwardView& f, std::int64_t group, int lane) {
  return slot_of(f, group * kLanes + lane);
}

// A slot, if `lane` is the first of the group's tokens that uses it; else -1. Walking the lanes with this
// visits each slot of a group once.
__device__ inline std::int64_t first_of_slot(const ForwardView& f, std::int64_t group, int lane) {
  const std::int64_t slot = slot_of(f, group, lane);
  for (int earlier = 0; earlier < lane; ++earlier)
    if (slot_of(f, group, earlier) == slot) return -1;
  return slot;
}

template <class E>
__global__ void pack_kernel(ForwardView f) {
  const std::int64_t k = thread_index(), group = blockIdx.z;
  if (k >= f.H) return;
  const auto* x = static_cast<const typename E::Bits*>(f.x);
  const std::int64_t at = faulty(Fault::groups_share_scratch) ? 0 : group;
  float* packed = f.packed_x + (at * f.H + k) * kLanes;
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t t = group * kLanes + l;
    packed[l] = t < f.T ? E::load(x[t * f.H + k]) : 0.0f;
  }
}

template <class E>
__global__ void bridge_kernel(ForwardView f) {
  const std::int64_t rows = f.outer * 2 * f.R, row = thread_index(), group = blockIdx.z;
  if (row >= rows) return;
  const auto* a = static_cast<const typename E::Bits*>(f.pool.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A]);
  float* bridge = floats(f.bridge) + (group * rows + row) * kLanes;
  clear_unused(f, group, bridge);
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t slot = first_of_slot(f, group, lane);
    if (slot < 0) continue;
    const Lanes br = seam<E>(f, SINKTRAP_SEAM(GATE_UP_BRIDGE),
                             dot<E>(a + (slot * rows + row) * f.H, f.packed_x + group * f.H * kLanes, f.H));
    for (int l = lane; l < kLanes; ++l)
      if (slot_of(f, group, l) == slot) bridge[l] = br.v[l];
  }
}

template <class E>
__global__ void activation_kernel(ForwardView f) {
  using Bits = typename E::Bits;
  const std::int64_t e = thread_index() / f.F, j = thread_index() % f.F, group = blockIdx.z;
  if (e >= f.n) return;
  const std::int64_t gate_row = f.contiguous_w13 ? j : 2 * j, up_row = f.contiguous_w13 ? f.F + j : 2 * j + 1;
  const Bits* w13 = static_cast<const Bits*>(f.w13) + e * 2 * f.F * f.H;
  Lanes gate, up;
  dot<E>(w13 + gate_row * f.H, w13 + up_row * f.H, f.packed_x + group * f.H * kLanes, f.H, gate, up);
  gate = seam<E>(f, SINKTRAP_SEAM(BASE_Y), gate);
  up = seam<E>(f, SINKTRAP_SEAM(BASE_Y), up);

  const std::int64_t o = f.outer == 1 ? 0 : e;
  const float* bridge = floats(f.bridge) + (group * f.outer + o) * 2 * f.R * kLanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t slot = first_of_slot(f, group, lane);
    if (slot < 0) continue;
    const Bits* w1 =
        static_cast<const Bits*>(f.pool.w1_delta) + ((slot * f.n + e) * 2 * f.F + 2 * j) * 2 * f.R;
    const Lanes gate_delta = seam<E>(f, SINKTRAP_SEAM(GATE_UP_DELTA), dot<E>(w1, bridge, f.R));
    const Lanes up_delta =
        seam<E>(f, SINKTRAP_SEAM(GATE_UP_DELTA), dot<E>(w1 + 3 * f.R, bridge + f.R * kLanes, f.R));
    for (int l = lane; l < kLanes; ++l) {
      if (slot_of(f, group, l) != slot) continue;
      gate.v[l] = gate.v[l] + gate_delta.v[l];
      up.v[l] = up.v[l] + up_delta.v[l];
    }
  }

  float* act = floats(f.act) + ((group * f.n + e) * f.F + j) * kLanes;
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t t = group * kLanes + l;
    if (t >= f.T) {
      act[l] = 0.0f;
      continue;
    }
    act[l] = activation<E>(f, gate.v[l], up.v[l], gamma_of<E>(f, t, e));
  }
}

template <class E>
__global__ void down_bridge_kernel(ForwardView f) {
  using Bits = typename E::Bits;
  const std::int64_t rows = f.outer * f.R, row = thread_index(), group = blockIdx.z;
  if (row >= rows) return;
  const float* act = floats(f.act) + group * f.n * f.F * kLanes;
  float* bridge = floats(f.down_bridge) + (group * rows + row) * kLanes;
  clear_unused(f, group, bridge);
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t slot = first_of_slot(f, group, lane);
    if (slot < 0) continue;
    Lanes acc;
    if (f.pool.a_cat != nullptr) {  // one accumulator over the features of all experts
      acc = dot<E>(static_cast<const Bits*>(f.pool.a_cat) + (slot * f.R + row) * f.n * f.F, act, f.n * f.F);
    } else {
      const std::int64_t e = row / f.R;
      acc = dot<E>(
          static_cast<const Bits*>(f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_A]) + (slot * rows + row) * f.F,
          act + e * f.F * kLanes, f.F);
    }
    acc = seam<E>(f, SINKTRAP_SEAM(DOWN_BRIDGE), acc);
    for (int l = lane; l < kLanes; ++l)
      if (slot_of(f, group, l) == slot) bridge[l] = acc.v[l];
  }
}

// The sum of the outer terms of down_lora_b for hidden element h of a slot.
template <class E>
__device__ inline Lanes down_delta(const ForwardView& f, std::int64_t group, std::int64_t slot,
                                   std::int64_t h) {
  // Rows of b_cat hold all experts side by side; with one outer factor that is a row of down_lora_b itself.
  const void* operand = f.pool.b_cat != nullptr ? f.pool.b_cat : f.pool.buffers[SINKTRAP_BUFFER_DOWN_LORA_B];
  const auto* row = static_cast<const typename E::Bits*>(operand) + (slot * f.H + h) * f.outer * f.R;
  const float* bridge = floats(f.down_bridge) + group * f.outer * f.R * kLanes;
  Lanes total = zero();
  for (std::int64_t o = 0; o < f.outer; ++o) {
    const Lanes term =
        seam<E>(f, SINKTRAP_SEAM(DOWN_DELTA), dot<E>(row + o * f.R, bridge + o * f.R * kLanes, f.R));
    for (int l = 0; l < kLanes; ++l) total.v[l] = o == 0 ? term.v[l] : total.v[l] + term.v[l];
  }
  return total;
}

template <class E>
__global__ void output_kernel(ForwardView f) {
  using Bits = typename E::Bits;
  const std::int64_t h = thread_index(), group = blockIdx.z;
  if (h >= f.H || !permitted(f)) return;
  const auto* w2 = static_cast<const Bits*>(f.w2);
  Lanes result = zero();
  for (std::int64_t e = 0; e < f.n; ++e) {
    const Lanes term =
        seam<E>(f, SINKTRAP_SEAM(EXPERT_OUT),
                dot<E>(w2 + (e * f.H + h) * f.F, floats(f.act) + (group * f.n + e) * f.F * kLanes, f.F));
    for (int l = 0; l < kLanes; ++l) result.v[l] = e == 0 ? term.v[l] : result.v[l] + term.v[l];
  }
  result = seam<E>(f, SINKTRAP_SEAM(BASE_OUT), result);
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t slot = first_of_slot(f, group, lane);
    if (slot < 0) continue;
    const Lanes delta = down_delta<E>(f, group, slot, h);
    for (int l = lane; l < kLanes; ++l)
      if (slot_of(f, group, l) == slot) result.v[l] = result.v[l] + delta.v[l];
  }
  auto* out = static_cast<Bits*>(f.out);
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t t = group * kLanes + l;
    if (t < f.T) out[t * f.H + h] = E::store(result.v[l]);
  }
}

template <class E>
bool run(const ForwardView& f) {
  const auto groups = static_cast<unsigned>((f.T + kLanes - 1) / kLanes);
  const auto launch = [&](std::int64_t threads, void (*kernel)(ForwardView)) {
    const dim3 grid(static_cast<unsigned>(block_count(threads)), 1, groups);
    return simt::launch({grid, block_threads(threads)}, kernel, f);
  };
  const bool pool = f.R > 0;
  return launch(f.H, pack_kernel<E>) && (!pool || launch(f.outer * 2 * f.R, bridge_kernel<E>)) &&
         launch(f.n * f.F, activation_kernel<E>) && (!pool || launch(f.outer * f.R, down_bridge_kernel<E>)) &&
         launch(f.H, output_kernel<E>);
}

}  // namespace

bool run_ordered(const ForwardView& view) {
  switch (view.type) {
    case Type::bf16:
      return run<Bf16>(view);
    case Type::f16:
      return run<F16>(view);
    case Type::f32:
      return run<F32>(view);
  }
  return false;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
