// Magnitudes of a vector's elements, as the certificate of an exact case needs them: it looks at every
// weight.
#pragma once
#include <cstdint>

namespace sinktrap::reference {

constexpr int kNoGranule = 1 << 20;  // of a vector of zeros: above every exponent, also when two are added

// What is needed of a vector to bound its products with others.
struct Magnitude {
  int granule = kNoGranule;  // exponent of the smallest lowest bit
  double sum = 0, largest = 0, norm = 0;
  std::uint32_t lowest_bits = 0xffffffff, highest_bits = 0;  // of the nonzero magnitudes, as f32 bit patterns
};

// Of normal numbers and zeros; v has `count` elements.
Magnitude magnitude_of(const float* v, std::int64_t count);

}  // namespace sinktrap::reference
