#include "cuda_impl/host/tensors.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

bool same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::optional<Type> storage_type(DLDataType t) {
  if (t.lanes != 1) return std::nullopt;
  if (t.code == kDLBfloat && t.bits == 16) return Type::bf16;
  if (t.code == kDLFloat && t.bits == 16) return Type::f16;
  if (t.code == kDLFloat && t.bits == 32) return Type::f32;
  return std::nullopt;
}

std::int64_t encode_device(DLDevice device) {
  // Unsigned, since a type of -2^31 with a negative id leaves int64.
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(static_cast<std::int64_t>(device.device_type)) << 32) +
      static_cast<std::uint64_t>(static_cast<std::int64_t>(device.device_id)));
}

std::optional<std::int64_t> product(std::initializer_list<std::int64_t> extents) {
  std::int64_t p = 1;
  for (std::int64_t extent : extents)
    if (extent < 0 || __builtin_mul_overflow(p, extent, &p)) return std::nullopt;
  return p;
}

std::string form_problem(const char* name, const DLTensor* t, int rank, DLDataType type) {
  const std::string who = std::string(name) + ": ";
  if (t == nullptr) return who + "missing";
  if (t->ndim != rank || t->shape == nullptr) return who + "needs " + std::to_string(rank) + " axes";
  if (!same_type(t->dtype, type)) return who + "wrong element type";
  if (t->device.device_type != kDevice.device_type || t->device.device_id != kDevice.device_id)
    return who + "not on the implementation's device";
  const std::int64_t bytes = (t->dtype.bits + 7) / 8;
  std::int64_t size = bytes;
  bool empty = false;
  for (int axis = 0; axis < rank; ++axis) {
    if (t->shape[axis] < 0) return who + "negative extent";
    if (t->shape[axis] == 0) empty = true;
  }
  if (empty) return {};
  std::int64_t stride = 1;  // below `size`, so it cannot wrap either
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (t->strides != nullptr && t->shape[axis] != 1 && t->strides[axis] != stride)
      return who + "not contiguous";
    if (__builtin_mul_overflow(size, t->shape[axis], &size)) return who + "more than 2^63 - 1 bytes";
    stride *= t->shape[axis];
  }
  const auto address = reinterpret_cast<std::uintptr_t>(elements(*t));
  if (address == 0) return who + "no data";
  if (address % static_cast<std::uintptr_t>(bytes) != 0) return who + "data not aligned to its element";
  return {};
}

std::string tensor_problem(const char* name, const DLTensor* t, std::initializer_list<std::int64_t> extents,
                           DLDataType type) {
  const int rank = static_cast<int>(extents.size());
  if (t != nullptr && t->ndim == rank && t->shape != nullptr) {
    int axis = 0;
    for (std::int64_t extent : extents) {
      if (t->shape[axis] != extent)
        return std::string(name) + ": axis " + std::to_string(axis) + " has extent " +
               std::to_string(t->shape[axis]) + ", expected " + std::to_string(extent);
      ++axis;
    }
  }
  return form_problem(name, t, rank, type);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
