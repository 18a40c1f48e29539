#include "cases/lattice_pattern.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

namespace sinktrap {
namespace {

std::int32_t floor_mod(std::int32_t a, std::int32_t m) {
  const std::int32_t r = a % m;
  return r < 0 ? r + m : r;
}
// The lanes of a batch side by side (vector types of GCC and clang: loops over eight lanes are unrolled
// before either compiler looks for vector instructions). Passed by reference, since their calling convention
// depends on the machine.
using Ints __attribute__((vector_size(4 * Pattern::kLanes))) = std::int32_t;
using Floats __attribute__((vector_size(4 * Pattern::kLanes))) = float;
using Shorts __attribute__((vector_size(2 * Pattern::kLanes))) = std::int16_t;
using Octets __attribute__((vector_size(Pattern::kLanes))) = std::uint8_t;

// q = floor(a / b) by 1 / b, for integers |a| < 2^20 and b <= 511. (2a + 1) / 2b in place of a / b lies at
// least 1 / 2b away from every integer, on the same side; less 1/2, it is rounded to nearest, by adding 3
// 2^22, where the unit of a float is 1. The roundings before that (of 1 / b, of the product, of the sum) move
// it by at most |a + 1/2| / b (2^-23 + 2^-24) <= 3 / 16b.
void floor_divide(const Floats& a, float over_b, Floats& q) {
  constexpr float kToNearest = 0x1.8p23f;
  q = ((a + 0.5f) * over_b - 0.5f + kToNearest) - kToNearest;
}
void floor_modulo(const Floats& a, float b, float over_b, Floats& r) {
  floor_divide(a, over_b, r);
  r = a - b * r;
}

// a^-1 modulo m, for coprime a and m > 1 (extended Euclid).
std::int32_t inverse_modulo(std::int32_t a, std::int32_t m) {
  std::int32_t r0 = m, r1 = a % m, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const std::int32_t q = r0 / r1;
    r0 = std::exchange(r1, r0 - q * r1);
    t0 = std::exchange(t1, t0 - q * t1);
  }
  return floor_mod(t0, m);
}

// Two different odd coprime integers, from 9..15 or, for variety of significands, from 17..wide. Not smaller:
// a pair has to reach targets of several hundred with weights of one byte.
std::pair<std::int32_t, std::int32_t> coprime_pair(Random& random, int wide) {
  const bool narrow = wide < 19 || random.chance(3, 5);
  const std::int32_t lo = narrow ? 4 : 8, hi = narrow ? 7 : (wide - 1) / 2;
  while (true) {
    const std::int32_t a = 2 * random.between(lo, hi) + 1, b = 2 * random.between(lo, hi) + 1;
    if (a != b && std::gcd(a, b) == 1) return {a, b};
  }
}

}  // namespace

Pattern Pattern::single(Random& random, int magnitude) {
  Pattern p;
  p.classes_ = 1;
  p.width_ = 1;
  p.values_ = {static_cast<std::int16_t>(random.sign() * magnitude)};
  return p;
}

Pattern::Pattern(Random& random, int classes, std::int64_t width, int pool_max, int wide, int weight)
    : classes_(classes), width_(width), pool_max_(pool_max), weight_(weight) {
  const auto C = static_cast<std::size_t>(classes);
  values_.resize(static_cast<std::size_t>(width) * C);
  pool_.resize(static_cast<std::size_t>(width));
  std::iota(pool_.begin(), pool_.end(), 0u);
  random.shuffle(std::span(pool_));

  // A pair contributes pa |wa| + pb |wb| <= 2 wide weight to a row's sum of magnitudes.
  const auto widest = std::min<std::int64_t>(wide, kPairBudget / (std::int64_t{2} * classes * weight));
  for (std::size_t c = 0; c < C; ++c) {
    Pair p;
    p.a = pool_.back();
    pool_.pop_back();
    p.b = pool_.back();
    pool_.pop_back();
    std::tie(p.pa, p.pb) = coprime_pair(random, static_cast<int>(widest));
    p.inverse = inverse_modulo(p.pa, p.pb);
    p.reach = p.pb * (weight - p.pa);
    p.over_pa = 1.0f / static_cast<float>(p.pa);
    p.over_pb = 1.0f / static_cast<float>(p.pb);
    values_[p.a * C + c] = static_cast<std::int16_t>(random.sign() * p.pa);
    values_[p.b * C + c] = static_cast<std::int16_t>(random.sign() * p.pb);
    pairs_.push_back(p);
  }

  constexpr std::array<std::uint32_t, 3> kDensities = {2, 4, 5};  // fifths of the pool that each class uses
  const std::uint32_t density = kDensities[random.below(3)];
  for (std::uint32_t k : pool_) {
    const std::uint32_t certain =
        random.below(static_cast<std::uint32_t>(classes));  // nobody's coordinate would be dead
    for (std::size_t c = 0; c < C; ++c) {
      const std::int32_t v = random.signed_magnitude(static_cast<std::uint32_t>(pool_max));
      if (c == certain || random.chance(density, 5)) values_[k * C + c] = static_cast<std::int16_t>(v);
    }
  }
  // Weights of at least 1 on the pool; beyond the budget the rest of a gigantic pool stays without weight.
  pool_.resize(std::min<std::size_t>(pool_.size(), static_cast<std::size_t>(kPoolBudget / pool_max)));
}

// Signs go against the running sums P, so that these stay near zero: |P|^2 grows by at most (m |v|)^2 a step,
// hence |P| <= sqrt(K) * 127 * |v|, and no partial sum of P.v leaves 32 bits (|v|^2 <= 12 * 16; K <= 2^21).
void Pattern::draw_pool(Random& random, Targets& sums, Batch& w) const {
  constexpr std::array<std::int32_t, 3> kLargest = {15, 63, 127};
  std::int32_t largest = kLargest[random.below(3)];
  if (!pool_.empty()) {
    const auto share = kPoolBudget / (static_cast<std::int64_t>(pool_.size()) * pool_max_);
    largest = static_cast<std::int32_t>(std::clamp<std::int64_t>(share, 1, largest));
  }
  const auto C = static_cast<std::size_t>(classes_);
  Ints P[kMaxClasses] = {};
  for (std::uint32_t k : pool_) {
    const std::int16_t* v = &values_[k * C];
    Ints product{};
    for (std::size_t c = 0; c < C; ++c) product += P[c] * std::int32_t{v[c]};
    Octets octets;
    const std::uint64_t r = random.next();
    std::memcpy(&octets, &r, sizeof octets);  // one for each lane
    const Ints bytes = __builtin_convertvector(octets, Ints);
    const Ints magnitude = 1 + (bytes * largest >> 8);  // 1..largest
    // Against the product's sign; where that is 0, by the byte's lowest bit. All ones negate. (Without AVX2 a
    // comparison of vectors would be one of each lane.)
    const Ints minus = -product, other_than_zero = (product | minus) >> 31;
    const Ints negative = (minus >> 31) | (~other_than_zero & ((bytes & 1) - 1));
    const Ints weight = (magnitude ^ negative) - negative;
    const Shorts narrow = __builtin_convertvector(weight, Shorts);
    std::memcpy(&w[k], &narrow, sizeof narrow);
    for (std::size_t c = 0; c < C; ++c) P[c] += weight * std::int32_t{v[c]};
  }
  std::memcpy(&sums, P, C * sizeof *P);
}

// A lane whose running sums wandered beyond what a pair can bring back gets its pool halved, towards zero,
// until it is in reach: at most seven times, for without a pool every target is.
void Pattern::shrink_pool(const Targets& targets, Targets& sums, Batch& w) const {
  const auto C = static_cast<std::size_t>(classes_);
  for (std::size_t l = 0; l < kLanes; ++l) {
    const auto out_of_reach = [&] {
      for (std::size_t c = 0; c < C; ++c)
        if (std::abs(targets[c][l] - sums[c][l]) > pairs_[c].reach) return true;
      return false;
    };
    for (int halvings = 0; halvings < 7 && out_of_reach(); ++halvings) {
      for (std::size_t c = 0; c < C; ++c) sums[c][l] = 0;
      for (std::uint32_t k : pool_) {
        w[k][l] = static_cast<std::int16_t>(w[k][l] / 2);
        for (std::size_t c = 0; c < C; ++c) sums[c][l] += w[k][l] * values_[k * C + c];
      }
    }
  }
}

// pa wa + pb wb = rest: wa = rest / pa (mod pb), drawn uniformly from those with |wa|, |wb| <= weight. There
// is one: some |wa| <= pb / 2 is in the class, and |rest - pa wa| <= pb (weight - pa) + pa pb / 2 <= pb
// weight.
//
// In floats: integers below 2 pb weight <= 2 511 1022 < 2^20 are exact in them.
void Pattern::solve_pair(Random& random, int c, const Rests& rests, Batch& w) const {
  const Pair& p = pairs_[static_cast<std::size_t>(c)];
  const auto pa = static_cast<float>(p.pa), pb = static_cast<float>(p.pb);
  const auto weight = static_cast<float>(weight_), inverse = static_cast<float>(p.inverse);
  Ints stored;
  std::memcpy(&stored, &rests, sizeof stored);
  const Floats rest = __builtin_convertvector(stored, Floats);
  Floats residue, low, high, first, last;
  floor_modulo(rest, pb, p.over_pb, residue);
  floor_modulo(residue * inverse, pb, p.over_pb, residue);
  floor_divide(pb * weight - rest, p.over_pa, low);
  floor_divide(pb * weight + rest, p.over_pa, high);
  low = low < weight ? -low : Floats{} - weight;
  high = high < weight ? high : Floats{} + weight;
  floor_divide(residue - low, p.over_pb, first);
  floor_divide(high - residue, p.over_pb, last);
  const Ints count = __builtin_convertvector(first + last, Ints) + 1;
  Ints drawn;
  for (int l = 0; l < kLanes; ++l)
    drawn[l] = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(count[l])));
  const Floats wa = residue + pb * (__builtin_convertvector(drawn, Floats) - first);
  Floats wb;
  floor_divide(rest - pa * wa, p.over_pb, wb);
  const Shorts at_a = __builtin_convertvector(wa * (value(c, p.a) > 0 ? 1.0f : -1.0f), Shorts);
  const Shorts at_b = __builtin_convertvector(wb * (value(c, p.b) > 0 ? 1.0f : -1.0f), Shorts);
  std::memcpy(&w[p.a], &at_a, sizeof at_a);
  std::memcpy(&w[p.b], &at_b, sizeof at_b);
}

void Pattern::close(Random& random, const Targets& targets, Batch& w) const {
  if (pairs_.empty()) {  // one coordinate of magnitude 1, or 2 where all targets are even
    for (std::size_t l = 0; l < kLanes; ++l) w[0][l] = static_cast<std::int16_t>(targets[0][l] / values_[0]);
    return;
  }
  Targets sums{};
  draw_pool(random, sums, w);
  shrink_pool(targets, sums, w);
  for (int c = 0; c < classes_; ++c) {
    const auto i = static_cast<std::size_t>(c);
    Rests rests;
    for (std::size_t l = 0; l < kLanes; ++l) rests[l] = targets[i][l] - sums[i][l];
    solve_pair(random, c, rests, w);
  }
}

}  // namespace sinktrap
