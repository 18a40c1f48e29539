// An owning host tensor of the contract: element type, extents, bytes. Row-major contiguous.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cases/bytes.hpp"
#include "contract/element.hpp"

namespace sinktrap {

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled. Extents must be >= 0 and the size must fit in memory.
  Tensor(Element type, std::vector<std::int64_t> shape)
      : type_(type),
        shape_(std::move(shape)),
        bytes_(static_cast<std::size_t>(size() * element_bytes(type))) {}

  Element type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t e : shape_) n *= e;
    return n;
  }
  std::span<const std::byte> bytes() const { return {bytes_.data(), bytes_.size()}; }
  std::span<std::byte> bytes() { return {bytes_.data(), bytes_.size()}; }

  double at(std::int64_t i) const { return load_element(type_, bytes_.data(), i); }
  // Rounds once to the type.
  void set(std::int64_t i, double value) { store_element(type_, bytes_.data(), i, value); }
  std::vector<double> values() const {
    std::vector<double> v(static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = at(static_cast<std::int64_t>(i));
    return v;
  }

  // A descriptor of this tensor's memory, valid while the tensor lives and is not moved.
  DLTensor view() const {
    DLTensor t{};
    t.data = bytes_.empty() ? nullptr : const_cast<std::byte*>(bytes_.data());
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<std::int32_t>(shape_.size());
    t.dtype = dl_type(type_);
    t.shape = const_cast<std::int64_t*>(shape_.data());
    return t;
  }
  bool same_bits(const Tensor& o) const {
    return type_ == o.type_ && shape_ == o.shape_ && bytes_ == o.bytes_;
  }

 private:
  Element type_ = Element::f32;
  std::vector<std::int64_t> shape_ = {0};
  Bytes bytes_;
};

}  // namespace sinktrap
