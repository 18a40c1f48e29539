// The judgement of one layout: CONTRACT.md section 2, sentence by sentence, on flat records.
#pragma once
#include "cuda_impl/records.hpp"
#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

inline constexpr std::int64_t kMax = 0x7fffffffffffffffll;
inline constexpr std::int64_t kMin = -kMax - 1;

// Twice a value; the nearest int64 where that leaves int64, and then `wraps`.
struct Doubled {
  std::int64_t value;
  bool wraps;
  __host__ __device__ bool is(std::int64_t other) const { return !wraps && other == value; }
};
__host__ __device__ inline Doubled twice(std::int64_t v) {
  if (v > kMax / 2) return {kMax, true};
  if (v < kMin / 2) return {kMin, true};
  return {2 * v, false};
}

__host__ __device__ inline sinktrap_verdict refuse(std::int32_t code, std::int32_t buffer, std::int32_t axis,
                                                   std::int64_t found, std::int64_t expected) {
  return {code, buffer, axis, 0, found, expected};
}
__host__ __device__ inline sinktrap_verdict accept() {
  return refuse(SINKTRAP_OK, SINKTRAP_NONE, SINKTRAP_NONE, 0, 0);
}

// Bits and lanes of an encoded type; its element size in bytes.
__host__ __device__ inline std::int64_t element_size(std::int64_t type) {
  return ((type >> 16 & 0xff) * (type & 0xffff) + 7) / 8;
}
__host__ __device__ inline std::int64_t encode_type(int code, int bits, int lanes) {
  return static_cast<std::int64_t>(code) << 24 | static_cast<std::int64_t>(bits) << 16 | lanes;
}
__host__ __device__ inline bool is_storage_type(std::int64_t type) {
  return type == encode_type(kDLBfloat, 16, 1) || type == encode_type(kDLFloat, 16, 1) ||
         type == encode_type(kDLFloat, 32, 1);
}

// `layer` and the five checks of the public implementation.
__host__ __device__ inline sinktrap_verdict judge_public(const FlatLayout& l) {
  const FlatBuffer &ga = l.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A],
                   &gb = l.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_B],
                   &da = l.buffers[SINKTRAP_BUFFER_DOWN_LORA_A], &db = l.buffers[SINKTRAP_BUFFER_DOWN_LORA_B];
  if (l.n < 1) return refuse(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, l.n, 1);
  if (l.H < 1 && l.H != SINKTRAP_ANY) return refuse(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, l.H, 1);
  if (l.F < 1 && l.F != SINKTRAP_ANY) return refuse(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, l.F, 1);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (l.buffers[b].ndim != 4) return refuse(SINKTRAP_NOT_4D, b, SINKTRAP_NONE, l.buffers[b].ndim, 4);
  if (ga.extent[1] != 1 && ga.extent[1] != l.n)
    return refuse(SINKTRAP_OUTER_DIM, SINKTRAP_BUFFER_GATE_UP_LORA_A, 1, ga.extent[1], l.n);
  if (db.extent[1] != 1 && db.extent[1] != l.n)
    return refuse(SINKTRAP_OUTER_DIM, SINKTRAP_BUFFER_DOWN_LORA_B, 1, db.extent[1], l.n);
  if (ga.extent[1] != db.extent[1])
    return refuse(SINKTRAP_LAYOUT_MISMATCH, SINKTRAP_BUFFER_DOWN_LORA_B, 1, db.extent[1], ga.extent[1]);
  if (gb.extent[1] != l.n)
    return refuse(SINKTRAP_EXPERT_COUNT, SINKTRAP_BUFFER_GATE_UP_LORA_B, 1, gb.extent[1], l.n);
  if (da.extent[1] != l.n)
    return refuse(SINKTRAP_EXPERT_COUNT, SINKTRAP_BUFFER_DOWN_LORA_A, 1, da.extent[1], l.n);
  const std::int64_t R = gb.extent[3];
  const Doubled twice_R = twice(R);
  if (!twice_R.is(ga.extent[2]))
    return refuse(SINKTRAP_RANK_MISMATCH, SINKTRAP_BUFFER_GATE_UP_LORA_A, 2, ga.extent[2], twice_R.value);
  if (da.extent[2] != R)
    return refuse(SINKTRAP_RANK_MISMATCH, SINKTRAP_BUFFER_DOWN_LORA_A, 2, da.extent[2], R);
  if (db.extent[3] != R)
    return refuse(SINKTRAP_RANK_MISMATCH, SINKTRAP_BUFFER_DOWN_LORA_B, 3, db.extent[3], R);
  return accept();
}

// Shapes that the five checks let through: extent .. size_overflow.
__host__ __device__ inline sinktrap_verdict judge_shapes(const FlatLayout& l) {
  const FlatBuffer &ga = l.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A],
                   &gb = l.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_B],
                   &da = l.buffers[SINKTRAP_BUFFER_DOWN_LORA_A], &db = l.buffers[SINKTRAP_BUFFER_DOWN_LORA_B];
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    for (int axis = 0; axis < 4; ++axis)
      if (l.buffers[b].extent[axis] < 1)
        return refuse(SINKTRAP_EXTENT, b, axis, l.buffers[b].extent[axis], 1);
  for (int b = 1; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (l.buffers[b].extent[0] != ga.extent[0])
      return refuse(SINKTRAP_SLOT_COUNT, b, 0, l.buffers[b].extent[0], ga.extent[0]);
  if (db.extent[2] != ga.extent[3])
    return refuse(SINKTRAP_HIDDEN_SIZE, SINKTRAP_BUFFER_DOWN_LORA_B, 2, db.extent[2], ga.extent[3]);
  if (l.H != SINKTRAP_ANY && ga.extent[3] != l.H)
    return refuse(SINKTRAP_HIDDEN_SIZE, SINKTRAP_BUFFER_GATE_UP_LORA_A, 3, ga.extent[3], l.H);
  const Doubled twice_F = twice(da.extent[3]);
  if (!twice_F.is(gb.extent[2]))  // twice something is even: an odd extent fails here too
    return refuse(SINKTRAP_INTERMEDIATE_SIZE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 2, gb.extent[2], twice_F.value);
  if (l.F != SINKTRAP_ANY && !twice(l.F).is(gb.extent[2]))
    return refuse(SINKTRAP_INTERMEDIATE_SIZE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 2, gb.extent[2],
                  twice(l.F).value);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    std::int64_t bytes = element_size(l.buffers[b].type);
    if (bytes == 0) continue;  // a type of no bits (refused below as dtype) overflows nothing
    for (int axis = 0; axis < 4; ++axis) {
      const std::int64_t largest = kMax / bytes;
      if (l.buffers[b].extent[axis] > largest)
        return refuse(SINKTRAP_SIZE_OVERFLOW, b, axis, l.buffers[b].extent[axis], largest);
      bytes *= l.buffers[b].extent[axis];
    }
  }
  return accept();
}

__host__ __device__ inline std::uint64_t byte_count(const FlatBuffer& b) {
  std::int64_t bytes = element_size(b.type);
  for (const std::int64_t extent : b.extent) bytes *= extent;
  return static_cast<std::uint64_t>(bytes);
}

// Bytes that two buffers share; by differences, since an address plus a size may wrap.
__host__ __device__ inline std::uint64_t shared_bytes(const FlatBuffer& a, const FlatBuffer& b) {
  const FlatBuffer &low = a.address <= b.address ? a : b, &high = a.address <= b.address ? b : a;
  const std::uint64_t distance = high.address - low.address, reach = byte_count(low), size = byte_count(high);
  if (distance >= reach) return 0;
  return reach - distance < size ? reach - distance : size;
}

// What lies behind the shapes: dtype .. aliasing.
__host__ __device__ inline sinktrap_verdict judge_memory(const FlatLayout& l) {
  const FlatBuffer* buffers = l.buffers;
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (!is_storage_type(buffers[b].type))
      return refuse(SINKTRAP_DTYPE, b, SINKTRAP_NONE, buffers[b].type, 0);
  for (int b = 1; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (buffers[b].type != buffers[0].type)
      return refuse(SINKTRAP_DTYPE, b, SINKTRAP_NONE, buffers[b].type, buffers[0].type);
  for (int b = 1; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (buffers[b].device != buffers[0].device)
      return refuse(SINKTRAP_DEVICE, b, SINKTRAP_NONE, buffers[b].device, buffers[0].device);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    if (!buffers[b].has_strides) continue;
    std::int64_t contiguous[4] = {0, 0, 0, 1};
    for (int axis = 2; axis >= 0; --axis)
      contiguous[axis] = contiguous[axis + 1] * buffers[b].extent[axis + 1];
    for (int axis = 0; axis < 4; ++axis)
      if (buffers[b].extent[axis] != 1 && buffers[b].stride[axis] != contiguous[axis])
        return refuse(SINKTRAP_STRIDE, b, axis, buffers[b].stride[axis], contiguous[axis]);
  }
  if (l.shapes_only) return accept();
  const auto size = static_cast<std::uint64_t>(element_size(buffers[0].type));
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    if (buffers[b].address == 0)
      return refuse(SINKTRAP_DATA, b, SINKTRAP_NONE, 0, static_cast<std::int64_t>(size));
    if (buffers[b].address % size != 0)
      return refuse(SINKTRAP_DATA, b, SINKTRAP_NONE, static_cast<std::int64_t>(buffers[b].address % size), 0);
  }
  for (int b = 1; b < SINKTRAP_BUFFER_COUNT; ++b)
    for (int earlier = 0; earlier < b; ++earlier)
      if (const std::uint64_t shared = shared_bytes(buffers[earlier], buffers[b]); shared > 0)
        return refuse(SINKTRAP_ALIASING, b, SINKTRAP_NONE, static_cast<std::int64_t>(shared), 0);
  return accept();
}

__host__ __device__ inline sinktrap_verdict judge(const FlatLayout& l, std::int32_t profile) {
  sinktrap_verdict verdict = judge_public(l);
  if (verdict.code != SINKTRAP_OK || profile == SINKTRAP_PROFILE_SGLANG) return verdict;
  verdict = judge_shapes(l);
  return verdict.code != SINKTRAP_OK ? verdict : judge_memory(l);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
