#include "reference/validate.hpp"

#include <cstring>

namespace sinktrap::reference {
namespace {

constexpr int kAxes = 4;
constexpr sinktrap_buffer kA = SINKTRAP_BUFFER_GATE_UP_LORA_A;   // [S, outer, 2R, H]
constexpr sinktrap_buffer kB = SINKTRAP_BUFFER_GATE_UP_LORA_B;   // [S, n, 2F, R]
constexpr sinktrap_buffer kDownA = SINKTRAP_BUFFER_DOWN_LORA_A;  // [S, n, R, F]
constexpr sinktrap_buffer kDownB = SINKTRAP_BUFFER_DOWN_LORA_B;  // [S, outer, H, R]

Verdict fault(Code code, int buffer, int axis, std::int64_t found, std::int64_t expected) {
  return verdict_of(code, buffer, axis, found, expected);
}

std::int64_t extent(const sinktrap_layout& l, int buffer, int axis) { return l.buffers[buffer].shape[axis]; }

Verdict check_layer(const sinktrap_layout& l) {
  const auto refuse = [](std::int64_t found) {
    return fault(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, found, 1);
  };
  if (l.n_shared_experts < 1) return refuse(l.n_shared_experts);
  if (l.hidden_size < 1 && l.hidden_size != SINKTRAP_ANY) return refuse(l.hidden_size);
  if (l.intermediate_size < 1 && l.intermediate_size != SINKTRAP_ANY) return refuse(l.intermediate_size);
  return kOk;
}

// The five checks of the public implementation.
Verdict check_public(const sinktrap_layout& l) {
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const DLTensor& t = l.buffers[b];
    if (t.ndim != kAxes) return fault(SINKTRAP_NOT_4D, b, SINKTRAP_NONE, t.ndim, kAxes);
    if (t.shape == nullptr) return fault(SINKTRAP_NOT_4D, b, SINKTRAP_NONE, 0, kAxes);
  }
  const std::int64_t n = l.n_shared_experts;
  for (int b : {kA, kDownB}) {
    const std::int64_t outer = extent(l, b, 1);
    if (outer != 1 && outer != n) return fault(SINKTRAP_OUTER_DIM, b, 1, outer, n);
  }
  if (!expert_layouts_consistent(l.buffers[kA], l.buffers[kDownB]))
    return fault(SINKTRAP_LAYOUT_MISMATCH, kDownB, 1, extent(l, kDownB, 1), extent(l, kA, 1));
  for (int b : {kB, kDownA})
    if (extent(l, b, 1) != n) return fault(SINKTRAP_EXPERT_COUNT, b, 1, extent(l, b, 1), n);

  const std::int64_t rank = extent(l, kB, 3);
  const Doubled twice_rank = doubled(rank);
  if (!twice_rank.is(extent(l, kA, 2)))
    return fault(SINKTRAP_RANK_MISMATCH, kA, 2, extent(l, kA, 2), twice_rank.nearest);
  if (extent(l, kDownA, 2) != rank)
    return fault(SINKTRAP_RANK_MISMATCH, kDownA, 2, extent(l, kDownA, 2), rank);
  if (extent(l, kDownB, 3) != rank)
    return fault(SINKTRAP_RANK_MISMATCH, kDownB, 3, extent(l, kDownB, 3), rank);
  return kOk;
}

// Extents that disagree although the five checks pass.
Verdict check_extents(const sinktrap_layout& l) {
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    for (int axis = 0; axis < kAxes; ++axis)
      if (extent(l, b, axis) < 1) return fault(SINKTRAP_EXTENT, b, axis, extent(l, b, axis), 1);

  const std::int64_t slots = extent(l, kA, 0);
  for (int b : {kB, kDownA, kDownB})
    if (extent(l, b, 0) != slots) return fault(SINKTRAP_SLOT_COUNT, b, 0, extent(l, b, 0), slots);

  const std::int64_t hidden = extent(l, kA, 3);
  if (extent(l, kDownB, 2) != hidden)
    return fault(SINKTRAP_HIDDEN_SIZE, kDownB, 2, extent(l, kDownB, 2), hidden);
  if (l.hidden_size != SINKTRAP_ANY && hidden != l.hidden_size)
    return fault(SINKTRAP_HIDDEN_SIZE, kA, 3, hidden, l.hidden_size);

  // An odd extent is never twice another one, so the comparison covers it.
  const std::int64_t features = extent(l, kB, 2);
  const Doubled twice_down = doubled(extent(l, kDownA, 3));
  if (!twice_down.is(features)) return fault(SINKTRAP_INTERMEDIATE_SIZE, kB, 2, features, twice_down.nearest);
  if (l.intermediate_size != SINKTRAP_ANY) {
    const Doubled twice_layer = doubled(l.intermediate_size);
    if (!twice_layer.is(features))
      return fault(SINKTRAP_INTERMEDIATE_SIZE, kB, 2, features, twice_layer.nearest);
  }
  return kOk;
}

Verdict check_sizes(const sinktrap_layout& l) {
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    std::int64_t bytes = dtype_bytes(l.buffers[b].dtype);
    for (int axis = 0; axis < kAxes; ++axis) {
      const std::int64_t before = bytes;
      if (__builtin_mul_overflow(before, extent(l, b, axis), &bytes))
        return fault(SINKTRAP_SIZE_OVERFLOW, b, axis, extent(l, b, axis), INT64_MAX / before);
    }
  }
  return kOk;
}

bool is_supported(DLDataType type) {
  const auto element = element_from_dl(type);
  return element && is_storage(*element);
}

Verdict check_types(const sinktrap_layout& l) {
  const std::int64_t type = dtype_key(l.buffers[kA].dtype);
  const auto differs = [&](int b) { return dtype_key(l.buffers[b].dtype) != type; };
  // An unsupported type goes before a differing one. Looking up a type costs more than all else here, and
  // four equal types need one look.
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    if ((b == kA || differs(b)) && !is_supported(l.buffers[b].dtype))
      return fault(SINKTRAP_DTYPE, b, SINKTRAP_NONE, dtype_key(l.buffers[b].dtype), 0);
  for (int b : {kB, kDownA, kDownB})
    if (differs(b)) return fault(SINKTRAP_DTYPE, b, SINKTRAP_NONE, dtype_key(l.buffers[b].dtype), type);
  const std::int64_t device = device_key(l.buffers[kA].device);
  for (int b : {kB, kDownA, kDownB})
    if (device_key(l.buffers[b].device) != device)
      return fault(SINKTRAP_DEVICE, b, SINKTRAP_NONE, device_key(l.buffers[b].device), device);
  return kOk;
}

// Sizes are known to fit here, so no product of extents leaves int64.
Verdict check_strides(const sinktrap_layout& l) {
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const DLTensor& t = l.buffers[b];
    if (t.strides == nullptr) continue;
    std::int64_t contiguous[kAxes];
    contiguous[kAxes - 1] = 1;
    for (int axis = kAxes - 1; axis > 0; --axis) contiguous[axis - 1] = contiguous[axis] * t.shape[axis];
    for (int axis = 0; axis < kAxes; ++axis)
      if (t.shape[axis] != 1 && t.strides[axis] != contiguous[axis])
        return fault(SINKTRAP_STRIDE, b, axis, t.strides[axis], contiguous[axis]);
  }
  return kOk;
}

std::uint64_t address(const DLTensor& t) { return reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset; }

// Bytes that [a, a + a_bytes) and [b, b + b_bytes) have in common, with no sum that could pass the end of
// memory.
std::uint64_t shared_bytes(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  if (a > b) return shared_bytes(b, b_bytes, a, a_bytes);
  const std::uint64_t distance = b - a;
  if (distance >= a_bytes) return 0;
  return a_bytes - distance < b_bytes ? a_bytes - distance : b_bytes;
}

Verdict check_memory(const sinktrap_layout& l) {
  const std::int64_t element = dtype_bytes(l.buffers[kA].dtype);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const std::uint64_t at = address(l.buffers[b]);
    if (at == 0) return fault(SINKTRAP_DATA, b, SINKTRAP_NONE, 0, element);
    // Storage types have 2 or 4 bytes, so the low bits are the remainder.
    const auto rest = static_cast<std::int64_t>(at & static_cast<std::uint64_t>(element - 1));
    if (rest != 0) return fault(SINKTRAP_DATA, b, SINKTRAP_NONE, rest, 0);
  }
  std::uint64_t bytes[SINKTRAP_BUFFER_COUNT];
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    bytes[b] = static_cast<std::uint64_t>(element_count(l.buffers[b]) * element);
    for (int earlier = 0; earlier < b; ++earlier) {
      const std::uint64_t shared =
          shared_bytes(address(l.buffers[earlier]), bytes[earlier], address(l.buffers[b]), bytes[b]);
      if (shared != 0)
        return fault(SINKTRAP_ALIASING, b, SINKTRAP_NONE, static_cast<std::int64_t>(shared), 0);
    }
  }
  return kOk;
}

}  // namespace

Verdict validate(const sinktrap_layout& layout, std::int32_t profile) {
  Verdict v = check_layer(layout);
  if (v.code == SINKTRAP_OK) v = check_public(layout);
  if (v.code != SINKTRAP_OK || profile == SINKTRAP_PROFILE_SGLANG) return v;
  v = check_extents(layout);
  if (v.code == SINKTRAP_OK) v = check_sizes(layout);
  if (v.code == SINKTRAP_OK) v = check_types(layout);
  if (v.code == SINKTRAP_OK) v = check_strides(layout);
  if (v.code == SINKTRAP_OK && !(layout.flags & SINKTRAP_SHAPES_ONLY)) v = check_memory(layout);
  return v;
}

bool expert_layouts_consistent(const DLTensor& gate_up_a, const DLTensor& down_b) {
  return gate_up_a.shape[1] == down_b.shape[1];
}

std::int64_t dtype_key(DLDataType type) {
  return std::int64_t{type.code} << 24 | std::int64_t{type.bits} << 16 | type.lanes;
}

std::int64_t device_key(DLDevice device) {
  // The type is copied as a number: a caller may have put a value there that is not in the enumeration. The
  // sum wraps instead of overflowing for the types next to -2^31.
  std::int32_t type;
  static_assert(sizeof type == sizeof device.device_type);
  std::memcpy(&type, &device.device_type, sizeof type);
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(type) << 32) +
                                   static_cast<std::uint64_t>(std::int64_t{device.device_id}));
}

std::int64_t dtype_bytes(DLDataType type) { return (std::int64_t{type.bits} * type.lanes + 7) / 8; }

Doubled doubled(std::int64_t extent) {
  Doubled d{};
  d.wrapped = __builtin_mul_overflow(extent, std::int64_t{2}, &d.nearest);
  if (d.wrapped) d.nearest = extent > 0 ? INT64_MAX : INT64_MIN;
  return d;
}

}  // namespace sinktrap::reference
