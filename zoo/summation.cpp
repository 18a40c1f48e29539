#include "zoo/summation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "cases/fill_store.hpp"

namespace sinktrap::zoo {
namespace {

using Kind = Summation::Kind;

constexpr Summation legal(Kind kind, int width = 1, int bits = 24) {
  return {kind, Summation::Order::ascending, width, bits};
}
// Widths are those of real kernels: blocks of K of 8 to 64, warps of 32 lanes, split-K by 2 to 8, mma of K =
// 4 to 32; accumulators of 24 bits (Volta) and one or two more (Ampere, Hopper).
constexpr Summation kLegal[] = {legal(Kind::rounded),
                                legal(Kind::fused),
                                legal(Kind::pairwise),
                                legal(Kind::blocked, 8),
                                legal(Kind::blocked, 16),
                                legal(Kind::blocked, 32),
                                legal(Kind::blocked, 64),
                                legal(Kind::lanes, 4),
                                legal(Kind::lanes, 8),
                                legal(Kind::lanes, 32),
                                legal(Kind::split, 2),
                                legal(Kind::split, 3),
                                legal(Kind::split, 8),
                                legal(Kind::truncating),
                                legal(Kind::tensor_core, 4),
                                legal(Kind::tensor_core, 8),
                                legal(Kind::tensor_core, 16),
                                legal(Kind::tensor_core, 32),
                                legal(Kind::tensor_core, 8, 25),
                                legal(Kind::tensor_core, 16, 26),
                                legal(Kind::wide)};

float toward_zero(double exact) {
  const auto rounded = static_cast<float>(exact);
  return std::fabs(rounded) > std::fabs(exact) ? std::nextafter(rounded, 0.0f) : rounded;
}

class Sum {
 public:
  Sum(const Summation& how, const Terms& t, bool flush) : how_(how), t_(t), flush_(flush) {}

  float pairwise(std::size_t first, std::size_t count) const {
    if (count == 1) return product(first);
    return flushed(pairwise(first, count / 2) + pairwise(first + count / 2, count - count / 2));
  }
  float rounded(float acc, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k) acc = flushed(acc + product(k));
    return acc;
  }
  float truncating(float acc) const {
    for (std::size_t k = 0; k < t_.w.size(); ++k)
      acc = flushed(toward_zero(static_cast<double>(acc) + product(k)));
    return acc;
  }
  float fused(float acc, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k) acc = flushed(std::fma(t_.w[k], t_.v[k], acc));
    return acc;
  }
  float blocked(float acc) const {
    for (std::size_t k = 0; k < t_.w.size(); k += width())
      acc = flushed(acc + rounded(0, k, std::min(k + width(), t_.w.size())));
    return acc;
  }
  float split(float acc) const {
    const std::size_t part = std::max<std::size_t>((t_.w.size() + width() - 1) / width(), 1);
    float parts = 0;
    for (std::size_t k = 0; k < t_.w.size(); k += part)
      parts = flushed(parts + fused(0, k, std::min(k + part, t_.w.size())));
    return flushed(acc + parts);
  }
  float lanes(float acc) const {
    std::vector<float> lane(width(), 0.0f);
    for (std::size_t k = 0; k < t_.w.size(); ++k) {
      float& l = lane[k % width()];
      l = flushed(std::fma(t_.w[k], t_.v[k], l));
    }
    for (std::size_t size = width(); size > 1; size = (size + 1) / 2)
      for (std::size_t i = 0; i + (size + 1) / 2 < size; ++i)
        lane[i] = flushed(lane[i] + lane[i + (size + 1) / 2]);
    return flushed(acc + lane[0]);
  }
  float tensor_core(float acc) const {
    for (std::size_t k = 0; k < t_.w.size(); k += width())
      acc = block(acc, k, std::min(k + width(), t_.w.size()));
    return acc;
  }
  float wide(float acc) const {
    double sum = acc;
    for (std::size_t k = 0; k < t_.w.size(); ++k) sum += static_cast<double>(t_.w[k]) * t_.v[k];
    return flushed(static_cast<float>(sum));
  }
  float storage(float acc, Element type) const {
    acc = stored(type, acc);
    for (std::size_t k = 0; k < t_.w.size(); ++k) acc = stored(type, std::fma(t_.w[k], t_.v[k], acc));
    return acc;
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(how_.width); }
  float flushed(float v) const { return flush_ && std::fabs(v) < 0x1p-126f ? 0.0f : v; }
  float product(std::size_t k) const { return flushed(t_.w[k] * t_.v[k]); }

  float block(float acc, std::size_t first, std::size_t last) const {
    int top = INT32_MIN;
    const auto look = [&](double v) {
      if (v != 0) top = std::max(top, std::isfinite(v) ? std::ilogb(v) : INT32_MAX);
    };
    look(acc);
    for (std::size_t k = first; k < last; ++k) look(static_cast<double>(t_.w[k]) * t_.v[k]);
    if (top == INT32_MIN) return acc;
    // Not finite: the plain sum says which.
    if (top > 1023) return wide_block(acc, first, last);
    const auto aligned = [&](double v) { return std::trunc(std::ldexp(v, how_.bits - 1 - top)); };
    double sum = aligned(acc);
    for (std::size_t k = first; k < last; ++k) sum += aligned(static_cast<double>(t_.w[k]) * t_.v[k]);
    return flushed(toward_zero(std::ldexp(sum, top - (how_.bits - 1))));
  }
  float wide_block(float acc, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k) acc += t_.w[k] * t_.v[k];
    return acc;
  }

  const Summation& how_;
  const Terms& t_;
  bool flush_;
};

Terms reordered(const Terms& t, Summation::Order order, Random& random) {
  std::vector<std::size_t> place(t.w.size());
  std::iota(place.begin(), place.end(), std::size_t{0});
  if (order == Summation::Order::descending)
    std::reverse(place.begin(), place.end());
  else
    random.shuffle(std::span(place));
  Terms out;
  for (const std::size_t k : place) out.add(&t.w[k], &t.v[k], 1);
  return out;
}

}  // namespace

void Terms::add(const float* weights, const float* values, std::int64_t count) {
  if (!skip_zeros) {
    w.insert(w.end(), weights, weights + count);
    v.insert(v.end(), values, values + count);
    return;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    if (weights[k] == 0 || values[k] == 0) continue;
    w.push_back(weights[k]);
    v.push_back(values[k]);
  }
}

std::span<const Summation> legal_summations() { return kLegal; }

float sum(const Summation& how, float start, const Terms& terms, bool flush, Random& random,
          Element storage) {
  if (terms.w.empty()) return start;
  if (how.order != Summation::Order::ascending)
    return sum({how.kind, Summation::Order::ascending, how.width, how.bits}, start,
               reordered(terms, how.order, random), flush, random, storage);
  const Sum s(how, terms, flush);
  switch (how.kind) {
    case Kind::rounded:
      return s.rounded(start, 0, terms.w.size());
    case Kind::fused:
      return s.fused(start, 0, terms.w.size());
    case Kind::pairwise: {
      const float total = start + s.pairwise(0, terms.w.size());
      return flush && std::fabs(total) < 0x1p-126f ? 0.0f : total;
    }
    case Kind::blocked:
      return s.blocked(start);
    case Kind::lanes:
      return s.lanes(start);
    case Kind::split:
      return s.split(start);
    case Kind::truncating:
      return s.truncating(start);
    case Kind::tensor_core:
      return s.tensor_core(start);
    case Kind::wide:
      return s.wide(start);
    case Kind::storage:
      return s.storage(start, storage);
  }
  return start;
}

float stored(Element type, float value) {
  if (type == Element::f32 || std::isnan(value)) return value;
  if (type == Element::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bf16_bits(value)) << 16);
  const std::uint16_t bits = f16_bits(value);
  return static_cast<float>(load_element(Element::f16, &bits, 0));
}

}  // namespace sinktrap::zoo
