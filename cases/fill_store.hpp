// A fast way to store floats in a storage type, for tensors of millions of elements.
//
// Same result as store_element(type, data, i, value) for every float that is not a NaN (inputs_test.cpp
// compares); the general function goes through ilogb and ldexp, which costs ten times as much.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "cases/tensor.hpp"

namespace sinktrap {

// Round to nearest even by adding just under half a unit of the last kept place, plus one when that place is
// odd.
inline std::uint16_t bf16_bits(float v) {
  const auto b = std::bit_cast<std::uint32_t>(v);
  return static_cast<std::uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

inline std::uint16_t f16_bits(float v) {
  const auto b = std::bit_cast<std::uint32_t>(v);
  const auto sign = static_cast<std::uint16_t>(b >> 16 & 0x8000);
  std::uint32_t a = b & 0x7fffffff;
  if (a >= std::bit_cast<std::uint32_t>(65536.0f)) return sign | 0x7c00;
  if (a < std::bit_cast<std::uint32_t>(0x1p-14f)) {
    // The units of a float in [1/2, 1) are 2^-24, those of a subnormal binary16: the addition rounds, and the
    // low bits of the sum are the result.
    const float sum = std::bit_cast<float>(a) + 0.5f;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f)));
  }
  a += 0xfff + (a >> 13 & 1);                                                  // 13 bits are dropped
  return static_cast<std::uint16_t>(sign | ((a >> 13) - ((127 - 15) << 10)));  // exponent bias 127 to 15
}

// count integers times `scale`, a power of two, as bits of a 16-bit type: one loop without a branch for bf16,
// which the compiler makes vector instructions of.
template <class Integer>
void to_bits(Element type, const Integer* values, std::int64_t count, float scale, std::uint16_t* bits) {
  if (type == Element::bf16)
    for (std::int64_t i = 0; i < count; ++i) bits[i] = bf16_bits(scale * static_cast<float>(values[i]));
  else
    for (std::int64_t i = 0; i < count; ++i) bits[i] = f16_bits(scale * static_cast<float>(values[i]));
}

// Writes elements of one tensor, which it does not own.
class FastStore {
 public:
  explicit FastStore(Tensor& t) : type_(t.type()), data_(t.bytes().data()) {}
  void set(std::int64_t i, float value) const {
    switch (type_) {
      case Element::bf16:
        put(i, bf16_bits(value));
        break;
      case Element::f16:
        put(i, f16_bits(value));
        break;
      case Element::f32:
        put(i, value);
        break;
      default:
        store_element(type_, data_, i, value);
    }
  }
  // Elements first .. first + count - 1: the integers times `scale`.
  template <class Integer>
  void set_row(std::int64_t first, const Integer* values, std::int64_t count, float scale) const {
    if (element_bytes(type_) != 2) {
      for (std::int64_t i = 0; i < count; ++i) set(first + i, scale * static_cast<float>(values[i]));
      return;
    }
    // The memory is a tensor's own, aligned to its elements.
    to_bits(type_, values, count, scale, reinterpret_cast<std::uint16_t*>(data_) + first);
  }

 private:
  template <class T>
  void put(std::int64_t i, T v) const {
    std::memcpy(data_ + i * static_cast<std::int64_t>(sizeof v), &v, sizeof v);
  }
  Element type_;
  std::byte* data_;
};

}  // namespace sinktrap
