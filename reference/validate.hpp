// Validation of a pool (CONTRACT.md section 2), as a sequence of checks in the contract's order.
#pragma once
#include "contract/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap::reference {

// The verdict that refuses nothing.
constexpr Verdict kOk = {SINKTRAP_OK, SINKTRAP_NONE, SINKTRAP_NONE, 0, 0, 0};

// Judges one layout in a profile (sinktrap_profile; every value but SINKTRAP_PROFILE_SGLANG counts as
// strict). Descriptors may hold anything: no field is trusted, nothing behind `data` is read, nothing is
// allocated. A buffer with four axes but no shape array has no readable axes: `not_4d`, found 0.
Verdict validate(const sinktrap_layout& layout, std::int32_t profile);

// The predicate of section 2; both tensors are 4-D.
bool expert_layouts_consistent(const DLTensor& gate_up_a, const DLTensor& down_b);

// How a verdict shows a type and a device: code * 2^24 + bits * 2^16 + lanes, and device_type * 2^32 +
// device_id.
std::int64_t dtype_key(DLDataType type);
std::int64_t device_key(DLDevice device);

// Bytes of one element of a type: ceil(bits * lanes / 8).
std::int64_t dtype_bytes(DLDataType type);

// Twice an extent; where that would wrap, the nearest int64, which equals no extent that a caller may match
// with it.
struct Doubled {
  std::int64_t nearest;
  bool wrapped;
  bool is(std::int64_t extent) const { return !wrapped && extent == nearest; }
};
Doubled doubled(std::int64_t extent);

}  // namespace sinktrap::reference
