#include "reference/magnitude.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sinktrap::reference {
namespace {

// Lane by lane, so that the compiler can use vector instructions.
template <int kLanes>
class MagnitudeLanes {
 public:
  MagnitudeLanes() {
    std::fill(granule_, granule_ + kLanes, kNoGranule);
    std::fill(low_, low_ + kLanes, INT32_MAX);
  }
  void take(const float* block) {
    constexpr std::uint32_t kHidden = 1u << 23;
    for (int l = 0; l < kLanes; ++l) {
      const float a = std::fabs(block[l]);
      const auto bits = std::bit_cast<std::int32_t>(a);
      const auto significand = static_cast<std::int32_t>((bits & (kHidden - 1)) | kHidden);
      // The float of a power of two has that power in its exponent: 127 + the number of trailing zeros.
      const auto trailing = std::bit_cast<std::int32_t>(static_cast<float>(significand & -significand)) >> 23;
      const std::int32_t lowest = (bits >> 23) - 127 - 23 + trailing - 127;
      granule_[l] = std::min(granule_[l], bits == 0 ? kNoGranule : lowest);
      low_[l] = std::min(low_[l], bits == 0 ? INT32_MAX : bits);
      high_[l] = std::max(high_[l], bits);
      sum_[l] += a;
      squares_[l] += static_cast<double>(a) * a;
    }
  }
  // Adds what was taken to m, whose norm is still a sum of squares.
  void add_to(Magnitude& m) const {
    for (int l = 0; l < kLanes; ++l) {
      m.granule = std::min(m.granule, granule_[l]);
      m.lowest_bits = std::min(m.lowest_bits, static_cast<std::uint32_t>(low_[l]));
      m.highest_bits = std::max(m.highest_bits, static_cast<std::uint32_t>(high_[l]));
      m.sum += sum_[l];
      m.norm += squares_[l];
    }
  }

 private:
  double sum_[kLanes] = {}, squares_[kLanes] = {};
  std::int32_t granule_[kLanes] = {}, low_[kLanes] = {}, high_[kLanes] = {};
};

}  // namespace

Magnitude magnitude_of(const float* v, std::int64_t count) {
  constexpr int kWide = 8;
  Magnitude m;
  std::int64_t i = 0;
  if (count >= kWide) {
    MagnitudeLanes<kWide> wide;
    for (; i + kWide <= count; i += kWide) wide.take(v + i);
    wide.add_to(m);
  }
  if (i < count) {
    MagnitudeLanes<1> rest;
    for (; i < count; ++i) rest.take(v + i);
    rest.add_to(m);
  }
  m.largest = std::bit_cast<float>(m.highest_bits);
  m.norm = std::sqrt(m.norm);
  return m;
}

}  // namespace sinktrap::reference
