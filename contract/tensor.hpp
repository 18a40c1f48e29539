// Reading DLTensor descriptors: extents, strides, sizes. Nothing here allocates or judges.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "contract/element.hpp"

namespace sinktrap {

// The extents of a tensor (empty for ndim <= 0 or a null shape).
inline std::span<const std::int64_t> extents(const DLTensor& t) {
  if (t.ndim <= 0 || t.shape == nullptr) return {};
  return {t.shape, static_cast<std::size_t>(t.ndim)};
}

// Number of elements; only for tensors whose size is known to fit.
inline std::int64_t element_count(const DLTensor& t) {
  std::int64_t count = 1;
  for (std::int64_t extent : extents(t)) count *= extent;
  return count;
}

inline const char* first_byte(const DLTensor& t) { return static_cast<const char*>(t.data) + t.byte_offset; }
inline char* first_byte(DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

// Device types are 1 to this. DLPack names fewer; C++ lets a DLDeviceType hold no more, since its largest
// enumerator has four bits ([dcl.enum]), so a value from outside is looked at as a number first.
inline constexpr std::int32_t kMostDeviceType = 15;

// Row-major contiguous; absent strides count as contiguous, and the stride of an axis of extent 1 is ignored.
bool is_contiguous(const DLTensor& t);

}  // namespace sinktrap
