// The units of both error analyses: what one rounding may lose, at which step, and where each constant comes
// from.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "contract/element.hpp"

namespace sinktrap::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One f32 operation that truncates: 2^-23 of its result (to nearest: half of it). Also the unit of an addend
// that a tensor core aligns to the largest of its block (Blanchard et al. 2020, "Mixed precision block fused
// multiply-add").
inline constexpr double kUnit = 0x1p-23;
// A block of b >= 2 products and the accumulator truncates b + 1 addends and its result, K/b times in a sum
// of K: (b + 2) K / b <= 2 K truncations in all. Roundings one by one (K products, K additions) are no more
// than that either.
inline constexpr double kTruncations = 2;
// What flushing a result to zero, or reading an operand as zero, can lose: the f32 normal range begins here.
inline constexpr double kSmallest = 0x1p-126;
inline constexpr double kLargest = FLT_MAX;
// silu within (|z| + 6) 2^-23 of the value, or within |z| 2^-22 (section 5).
inline constexpr double kRelativeSilu = 0x1p-23, kRelativeOffset = 6, kAbsoluteSilu = 0x1p-22;
// sup |silu'| = 1.09984 (at z = 2.3994), and half of sup |silu''| = 1/2 (at z = 0).
inline constexpr double kSteepestSilu = 1.1, kHalfCurvature = 0.25;
// A fast division returns 0 once 1 + exp(-z) > 2^126, z < -126 ln 2 = -87.34; an exp may be clamped from
// there on. Either way the result lies between -|z| exp(-87) and 0, as the exact one does.
inline constexpr double kExpEdge = 87;

// Rounding error of a sum of K products in any order: gamma_k = k u / (1 - k u) on the sum S of magnitudes
// (Higham 2002, lemma 3.1), with K + 1 for the accumulator's start. Each of the K products and K additions
// may flush its result. Where a partial sum may leave the finite range the error is not bounded.
inline double sum_error(std::int64_t K, double S) {
  const double k = static_cast<double>(K + 1), ku = k * kUnit;
  if (!(ku < 1)) return kInfinity;
  const double error = kTruncations * (ku / (1 - ku) * S + k * kSmallest);
  return S + error <= kLargest ? error : kInfinity;
}

class Rounding {
 public:
  Rounding(Element type, std::uint32_t seams) : format_(float_format(type)), seams_(seams) {}

  // Error of an intermediate after its seam: rounded to storage where the mask has it, else kept in f32.
  double seam(std::uint32_t bit, double magnitude, double error) const {
    if (seams_ & bit) return store(magnitude, error);
    if (!(magnitude + error <= kLargest)) return kInfinity;
    return error + flushed(magnitude, error, kSmallest);
  }
  // Error after rounding to storage: half a unit of the largest value that may be rounded (never more than
  // that value, since 0 is representable), and what a flush loses.
  double store(double magnitude, double error) const {
    const double top = magnitude + error;
    if (!(top <= largest())) return kInfinity;
    if (top == 0) return 0;
    const int exponent = std::max(std::ilogb(top), format_.min_exponent);
    const double half_unit = std::ldexp(1.0, exponent - format_.significant_bits);
    return error + std::min(half_unit, top) +
           flushed(magnitude, error, std::ldexp(1.0, format_.min_exponent));
  }

 private:
  double largest() const {
    return std::ldexp(2.0 - std::ldexp(1.0, 1 - format_.significant_bits), format_.max_exponent);
  }
  // Only a value below the normal range is flushed, and it loses itself.
  static double flushed(double magnitude, double error, double smallest_normal) {
    return magnitude - error < smallest_normal ? std::min(smallest_normal, magnitude + error) : 0;
  }

  FloatFormat format_;
  std::uint32_t seams_;
};

}  // namespace sinktrap::reference
