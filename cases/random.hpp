// The project's own random numbers: the same sequence with every compiler, so that a case's line is its
// contents.
//
// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a 64-bit
// counter and a mixing function. Streams of one seed are independent. Nothing of <random> is used: its
// distributions differ between standard libraries.
#pragma once
#include <cstdint>
#include <span>
#include <utility>

namespace sinktrap {

class Random {
 public:
  // `stream` separates uses of one seed (one per tensor, say).
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed ^ mix(stream + kStep))) {}

  std::uint64_t next() { return mix(state_ += kStep); }

  // 0..n-1 for n in 1..2^32-1 (multiply and shift; the bias is below n 2^-32).
  std::uint32_t below(std::uint32_t n) { return scale(next(), n); }
  // lo..hi, both included; hi - lo < 2^32 - 1.
  std::int32_t between(std::int32_t lo, std::int32_t hi) {
    const auto span = static_cast<std::uint32_t>(hi) - static_cast<std::uint32_t>(lo) + 1;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(lo) + below(span));
  }
  // True in `times` of `of` cases.
  bool chance(std::uint32_t times, std::uint32_t of) { return below(of) < times; }
  // +1 or -1.
  std::int32_t sign() { return (next() >> 63) != 0 ? 1 : -1; }
  // A magnitude in 1..n with a random sign, from one draw: the magnitude uses the high half, the sign the
  // lowest bit.
  std::int32_t signed_magnitude(std::uint32_t n) {
    const std::uint64_t r = next();
    const auto m = static_cast<std::int32_t>(1 + scale(r, n));
    return (r & 1) != 0 ? m : -m;
  }

  // Nearly normal, mean 0, variance 1, within +-3.47: the centred sum of the four 16-bit parts of one draw
  // (Irwin-Hall), each of variance (2^32 - 1) / 12, so that the sum's standard deviation is sqrt((2^32 - 1) /
  // 3).
  double normal() {
    constexpr double kDeviation = 37837.226772009125;
    const std::uint64_t r = next();
    const auto sum =
        static_cast<std::int32_t>((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
    return (sum - 2 * 0xffff) / kDeviation;
  }
  // Uniform in [0, 1): 53 bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Fisher-Yates; at most 2^32 - 1 entries.
  template <class T>
  void shuffle(std::span<T> v) {
    for (std::size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  static std::uint32_t scale(std::uint64_t r, std::uint32_t n) {
    return static_cast<std::uint32_t>((r >> 32) * n >> 32);
  }

  std::uint64_t state_;
};

}  // namespace sinktrap
