// What the host hands to the kernels: plain records and the functions that launch. No CUDA here, so that host
// sources do not need nvcc. All pointers are device memory unless a comment says otherwise; all extents count
// elements.
#pragma once
#include <cstdint>

#include "contract/sinktrap.h"
#include "cuda_impl/table.hpp"
#include "cuda_impl/target.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// Storage type of a layer, as a kernel chooses its instantiation by it.
enum class Type : std::int32_t { bf16, f16, f32 };

// A DLTensor without pointers into host memory. `ndim` is what the verdict reports: 0 where the shape is
// missing.
struct FlatBuffer {
  std::int32_t ndim;
  std::int32_t has_strides;
  std::int64_t extent[4], stride[4];  // only for ndim 4; stride only with has_strides
  std::int64_t type;                  // code * 2^24 + bits * 2^16 + lanes
  std::int64_t device;                // device_type * 2^32 + device_id
  std::uint64_t address;              // data + byte_offset
};
struct FlatLayout {
  std::int64_t n, H, F;
  std::int32_t shapes_only;
  FlatBuffer buffers[SINKTRAP_BUFFER_COUNT];
};

// A bound pool and its derived operands.
struct PoolView {
  std::int64_t S, outer, n, H, F, R;
  const void* buffers[SINKTRAP_BUFFER_COUNT];
  void* w1_delta;  // [S, n*2F, 2R]
  void* a_cat;     // [S, R, n*F]; null for per-expert
  void* b_cat;     // [S, H, n*R]; null for shared-outer
};

// Scratch of the ordered pass is packed by groups of kLanes tokens: value k of token g * kLanes + l lies at
// [g][k][l]. One row of weights then serves a group, and a group's chains of fma are independent of each
// other.
inline constexpr std::int64_t kLanes = 8;  // f32 values of an AVX register; two 16-byte loads on a GPU
// The decode pass has one token in each lane of a warp.
inline constexpr std::int64_t kDecodeTokens = 32;

struct ForwardView {
  std::int64_t T, n, H, F, R, outer;  // R and outer: 0 and 1 without a pool
  Type type;
  std::int32_t contiguous_w13, gammas_f32;
  std::uint32_t seams;
  const void *w13, *w2;
  PoolView pool;
  const void *x, *gammas;
  const std::int32_t* token_slot;
  void* out;
  // Where a captured pass is told by the device whether it may write `out`; null: the host has looked.
  const sinktrap_verdict* permit;
  // The tiled and mma passes read rows of scratch 16 bytes at a time: R and F, rounded up to eight elements.
  std::int64_t R_pitch, F_pitch;
  // Scratch, by kernel: ordered (f32) | tiled, mma (storage type, p for pitch) | decode (f32).
  float* packed_x;    // [groups, H, lanes]         | unused            | unused
  void* bridge;       // [groups, outer * 2R, lanes] | [T, outer, 2, pR] | [outer * 2R, 32]
  void* act;          // [groups, n * F, lanes]      | [T, n, pF]        | [n * F, 32]
  void* down_bridge;  // [groups, outer * R, lanes]  | [T, outer, pR]    | [outer * R, 32]
  // decode: sums over a part of K, [up_splits, n * 2F + outer * 2R, 32] and then [down_splits, H + outer * R,
  // 32].
  float* partial;
  std::int64_t up_splits, down_splits;
};

// One adapter's factors, checked by the host.
struct AdapterView {
  std::int64_t n, H, F, R, outer, slot;  // of the pool
  std::int64_t r, F_all, first_feature;  // this rank takes features first_feature .. first_feature + F - 1
  std::int32_t per_expert;
  float scaling;
  const void *gate_a, *up_a, *gate_up_b, *down_a, *down_b;
  void* pool[SINKTRAP_BUFFER_COUNT];
};

// What a captured step (host/graph.hpp) looks at on the device, replay after replay.
struct StepView {
  // The descriptors that the step judges, and those of the pool that it was captured with.
  const FlatLayout *layout, *bound;
  std::int32_t* marks;             // [S]: not 0 where a slot is to be updated; zeroed by the update
  const std::int32_t* token_slot;  // [T], unchecked
  std::int32_t* checked_slot;      // [T]: the same, or -1 everywhere when the step is refused
  sinktrap_verdict* verdict;       // of the step
  std::int64_t T;
  PoolView pool;
};

// Each returns false when the device failed; device_error() then says how.
bool judge_layouts(const FlatLayout* layouts, std::int64_t count, std::int32_t profile,
                   sinktrap_verdict* verdicts);
// One forward pass over view.T >= 1 tokens, launched and not waited for.
bool run_ordered(const ForwardView& view);
bool run_tiled(const ForwardView& view);   // bf16 and f16
bool run_mma(const ForwardView& view);     // bf16 and f16
bool run_decode(const ForwardView& view);  // bf16 and f16; at most kDecodeTokens tokens
// Into how many parts the decode pass cuts K: by the layer's and the pool's shape alone, so that a token's
// bits do not depend on its batch.
void choose_splits(ForwardView& f);
bool derive_slot(const PoolView& pool, std::int64_t slot, std::int64_t element_bytes);
bool load_slot(const AdapterView& adapter, Type type);
// Features [first, first + F_shard) of gate_up_lora_b [S, n, 2F, R] and of down_lora_a [S, n, R, F].
bool shard_gate_up(const void* full, void* shard, std::int64_t blocks, std::int64_t F, std::int64_t R,
                   std::int64_t F_shard, std::int64_t first, std::int64_t element_bytes);
bool shard_down(const void* full, void* shard, std::int64_t rows, std::int64_t F, std::int64_t F_shard,
                std::int64_t first, std::int64_t element_bytes);
// [S, 1, block] -> [S, n, block].
bool expand_outer(const void* shared, void* per_expert, std::int64_t S, std::int64_t n, std::int64_t block,
                  std::int64_t element_bytes);
// *different (device): the smallest s * n + e for which expert e of slot s differs from expert 0 of that slot
// in a bit; all ones when none does.
bool compare_experts(const void* per_expert, std::int64_t S, std::int64_t n, std::int64_t block,
                     std::int64_t element_bytes, unsigned long long* different);

// A captured step before its forward pass: judges the layout and the ids, then derives the marked slots; no
// launch depends on what any of them are.
bool check_step(const StepView& step);
bool derive_marked(const StepView& step, std::int64_t element_bytes);

// Device memory and the device itself, as simt.hpp has them.
bool device_present();
void* device_allocate(std::uint64_t bytes);
bool device_release(void* pointer);
bool device_write(void* device, const void* host, std::uint64_t bytes);
bool device_read(void* host, const void* device, std::uint64_t bytes);
bool device_copy(void* to, const void* from, std::uint64_t bytes);
bool device_fill(void* device, int byte, std::uint64_t bytes);
bool device_synchronise();
// Graphs, as simt.hpp has them. A graph is a handle of its own on each target.
struct DeviceGraph;
bool device_begin_capture();
DeviceGraph* device_end_capture();
bool device_replay(DeviceGraph* graph);
bool device_release_graph(DeviceGraph* graph);
void device_schedule(std::uint64_t seed);
const char* device_error();

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
