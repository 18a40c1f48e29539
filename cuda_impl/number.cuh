// Storage types and the ordered functions, for host and device: conversions on bits, exp and silu of
// CONTRACT.md section 7. Independent of contract/element.hpp, which the tests compare them with.
//
// Formats: IEEE 754-2019 binary16 (5 exponent bits, 10 fraction bits) and binary32; bf16 is the upper half of
// binary32. Rounding is to nearest, ties to even; overflow gives infinity; a NaN stays one.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "contract/ordered.h"
#include "cuda_impl/simt/simt.hpp"
#include "cuda_impl/target.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

__host__ __device__ inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
__host__ __device__ inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline constexpr std::uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;

struct Bf16 {
  using Bits = std::uint16_t;
  __host__ __device__ static float load(Bits b) { return float_of(static_cast<std::uint32_t>(b) << 16); }
  __host__ __device__ static Bits store(float value) {
    const std::uint32_t bits = bits_of(value);
    // The payload of a NaN may lie in the half that is dropped: set the quiet bit.
    if ((bits & kMagnitude) > kInfinity) return static_cast<Bits>(bits >> 16 | 0x40u);
    return static_cast<Bits>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
};

struct F16 {
  using Bits = std::uint16_t;
  __host__ __device__ static float load(Bits b) {
    const std::uint32_t sign = static_cast<std::uint32_t>(b & 0x8000u) << 16;
    // Fraction and exponent moved to their f32 places read 2^112 too small (biases 15 and 127); the product
    // is exact, for subnormals too.
    float value = float_of(static_cast<std::uint32_t>(b & 0x7fffu) << 13) * 0x1p112f;
    if ((b & 0x7c00u) == 0x7c00u) value = float_of(kInfinity | static_cast<std::uint32_t>(b & 0x3ffu) << 13);
    return float_of(bits_of(value) | sign);
  }
  __host__ __device__ static Bits store(float value) {
    const std::uint32_t bits = bits_of(value), magnitude = bits & kMagnitude;
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    std::uint32_t half;
    if (magnitude > kInfinity) {
      half = 0x7e00u;
    } else if (magnitude >=
               0x477ff000u) {  // 65520, half way between 65504 and 2^16, whose even neighbour is 2^16
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal
      // 0x38000000 is 112 << 23, the difference of the biases.
      half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    } else {
      // One unit of 0.5f is 2^-24, the smallest f16 subnormal: the sum rounds to it.
      half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    }
    return static_cast<Bits>(sign | half);
  }
};

struct F32 {
  using Bits = std::uint32_t;
  __host__ __device__ static float load(Bits b) { return float_of(b); }
  __host__ __device__ static Bits store(float value) { return bits_of(value); }
};

// 2^k for -126 <= k <= 127.
__host__ __device__ inline float power_of_two(int k) {
  return float_of(static_cast<std::uint32_t>(k + 127) << 23);
}

__host__ __device__ inline float ordered_exp(float x) {
  if (x != x) return x;
  if (x > SINKTRAP_EXP_OVERFLOW) return float_of(kInfinity);
  if (x < SINKTRAP_EXP_UNDERFLOW) return 0.0f;
  const float k = rintf(x * SINKTRAP_EXP_LOG2E);
  float r = fmaf(k, -SINKTRAP_EXP_LN2_HIGH, x);
  r = fmaf(k, -SINKTRAP_EXP_LN2_LOW, r);
  float q = SINKTRAP_EXP_C0;
  q = fmaf(q, r, SINKTRAP_EXP_C1);
  q = fmaf(q, r, SINKTRAP_EXP_C2);
  q = fmaf(q, r, SINKTRAP_EXP_C3);
  q = fmaf(q, r, SINKTRAP_EXP_C4);
  q = fmaf(q, r, SINKTRAP_EXP_C5);
  q = fmaf(q, r * r, r);
  q = q + 1.0f;
  // k is -150..128 here, so both factors are normal powers of two.
  const int exponent = static_cast<int>(k);
  const int half = exponent >> 1;  // floor(k / 2): C++20 shifts signed values arithmetically
  return (q * power_of_two(half)) * power_of_two(exponent - half);
}

__host__ __device__ inline float ordered_silu(float z) { return z / (1.0f + ordered_exp(-z)); }

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
