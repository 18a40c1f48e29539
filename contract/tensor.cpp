#include "contract/tensor.hpp"

namespace sinktrap {

bool is_contiguous(const DLTensor& t) {
  if (t.strides == nullptr || t.shape == nullptr) return true;
  // Unsigned, since extents that nobody has validated may wrap.
  std::uint64_t expected = 1;
  for (int axis = t.ndim - 1; axis >= 0; --axis) {
    if (t.shape[axis] != 1 && static_cast<std::uint64_t>(t.strides[axis]) != expected) return false;
    expected *= static_cast<std::uint64_t>(t.shape[axis]);
  }
  return true;
}

}  // namespace sinktrap
