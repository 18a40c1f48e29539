#include "cases/lattice_pattern.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>

namespace sinktrap {
namespace {

std::int32_t floor_mod(std::int32_t a, std::int32_t m) {
  const std::int32_t r = a % m;
  return r < 0 ? r + m : r;
}
std::int32_t floor_div(std::int32_t a, std::int32_t b) { return (a - floor_mod(a, b)) / b; }

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
  const auto widest = std::min<std::int64_t>(wide, kPairBudget / (2 * classes * weight));
  for (std::size_t c = 0; c < C; ++c) {
    Pair p;
    p.a = pool_.back();
    pool_.pop_back();
    p.b = pool_.back();
    pool_.pop_back();
    std::tie(p.pa, p.pb) = coprime_pair(random, static_cast<int>(widest));
    p.inverse = inverse_modulo(p.pa, p.pb);
    p.reach = p.pb * (weight - p.pa);
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
  for (std::uint32_t k : pool_) {
    const std::int16_t* v = &values_[k * C];
    std::array<std::int32_t, kLanes> product{}, weight{};
    for (std::size_t c = 0; c < C; ++c)
      for (std::size_t l = 0; l < kLanes; ++l) product[l] += sums[c][l] * v[c];
    const std::uint64_t r = random.next();
    for (std::size_t l = 0; l < kLanes; ++l) {
      const auto byte = static_cast<std::int32_t>(r >> (8 * l) & 255);
      const std::int32_t m = 1 + (byte * largest >> 8);  // 1..largest
      const std::int32_t either = (byte & 1) != 0 ? m : -m;
      weight[l] = product[l] > 0 ? -m : product[l] < 0 ? m : either;
      w[k][l] = static_cast<std::int16_t>(weight[l]);
    }
    for (std::size_t c = 0; c < C; ++c)
      for (std::size_t l = 0; l < kLanes; ++l) sums[c][l] += weight[l] * v[c];
  }
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
void Pattern::solve_pair(Random& random, int c, int lane, std::int32_t rest, Batch& w) const {
  const Pair& p = pairs_[static_cast<std::size_t>(c)];
  const std::int32_t residue = floor_mod(floor_mod(rest, p.pb) * p.inverse, p.pb);
  const std::int32_t lo = std::max(-weight_, -floor_div(p.pb * weight_ - rest, p.pa));
  const std::int32_t hi = std::min(weight_, floor_div(rest + p.pb * weight_, p.pa));
  const std::int32_t first = -floor_div(residue - lo, p.pb), last = floor_div(hi - residue, p.pb);
  const std::int32_t wa = residue + p.pb * random.between(first, last);
  const std::int32_t wb = (rest - p.pa * wa) / p.pb;
  const auto l = static_cast<std::size_t>(lane);
  w[p.a][l] = static_cast<std::int16_t>(value(c, p.a) > 0 ? wa : -wa);
  w[p.b][l] = static_cast<std::int16_t>(value(c, p.b) > 0 ? wb : -wb);
}

void Pattern::close(Random& random, const Targets& targets, Batch& w) const {
  if (pairs_.empty()) {  // one coordinate of magnitude 1, or 2 where all targets are even
    for (std::size_t l = 0; l < kLanes; ++l) w[0][l] = static_cast<std::int16_t>(targets[0][l] / values_[0]);
    return;
  }
  Targets sums{};
  draw_pool(random, sums, w);
  shrink_pool(targets, sums, w);
  for (int c = 0; c < classes_; ++c)
    for (int l = 0; l < kLanes; ++l) {
      const auto ci = static_cast<std::size_t>(c), li = static_cast<std::size_t>(l);
      solve_pair(random, c, l, targets[ci][li] - sums[ci][li], w);
    }
}

}  // namespace sinktrap
