// Checks of tensor descriptors that callers hand in. Nothing here trusts a descriptor: extents may be
// negative or huge, pointers null.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>

#include "contract/sinktrap.h"
#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

inline constexpr DLDevice kDevice = {SINKTRAP_ON_GPU ? kDLCUDA : kDLCPU, 0};

std::optional<Type> storage_type(DLDataType type);
inline std::int64_t element_bytes(Type type) { return type == Type::f32 ? 4 : 2; }
bool same_type(DLDataType a, DLDataType b);
inline std::int64_t encode_type(DLDataType t) {
  return static_cast<std::int64_t>(t.code) << 24 | static_cast<std::int64_t>(t.bits) << 16 | t.lanes;
}
std::int64_t encode_device(DLDevice device);

// Product of extents >= 0, or nothing when it leaves int64.
std::optional<std::int64_t> product(std::initializer_list<std::int64_t> extents);

// First byte of a tensor's elements.
inline const void* elements(const DLTensor& t) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset);
}
inline void* elements(DLTensor& t) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset);
}

// Why a tensor cannot be used as contiguous device memory of `rank` axes and this type, whatever its extents;
// empty when it can. Extents must be >= 0 and their byte count inside int64; a tensor without elements needs
// no data.
std::string form_problem(const char* name, const DLTensor* t, int rank, DLDataType type);
// The same with exact extents.
std::string tensor_problem(const char* name, const DLTensor* t, std::initializer_list<std::int64_t> extents,
                           DLDataType type);

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
