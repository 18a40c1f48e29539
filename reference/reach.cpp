#include "reference/reach.hpp"

#include <algorithm>
#include <cmath>

#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

// Below this magnitude a value may be flushed or rounded to zero: twice the smallest normal number of f16,
// and far above that of the other types.
double tiny(Element type) { return type == Element::f16 ? 0x1p-13 : 0x1p-60; }
// An intermediate may come out as zero when it is this far below the sum of magnitudes behind it: seams of 8
// significant bits err by 2^-8 of that sum each, and no more than eight roundings lie behind one.
constexpr double kCancelled = 0x1p-5;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Factor {
  Reach reach;
  bool zero;         // may be zero, and a term with it may be skipped
  double magnitude;  // what sums of this factor count; of a clean one
};
struct Dot {
  Reach reach = Reach::clean;
  double magnitude = 0;
  void add(const Dot& o) {
    reach = std::max(reach, o.reach);
    magnitude += o.magnitude;
  }
};

// A value that may be anything may be zero too.
Factor times(const Factor& a, const Factor& b) {
  const Reach most = std::max(a.reach, b.reach);
  if (most == Reach::clean) return {Reach::clean, a.zero || b.zero, a.magnitude * b.magnitude};
  const bool zero = a.zero || b.zero || a.reach == Reach::anything || b.reach == Reach::anything;
  return {zero ? Reach::anything : most, zero, 0};
}

class Pass {
 public:
  Pass(const Problem& p, const Stages& s) : p_(p), s_(s), tiny_(tiny(p.type)) {}

  std::vector<Reach> run() {
    std::vector<Reach> out;
    for (std::int64_t t = 0; t < p_.T; ++t) token(t, out);
    return out;
  }

 private:
  std::int64_t outer_of(std::int64_t e) const { return p_.outer == 1 ? 0 : e; }
  std::int64_t slot() const { return p_.token_slot[t_]; }

  Factor stored(double value) const {
    if (std::isnan(value)) return {Reach::nan, false, 0};
    if (std::isinf(value)) return {Reach::not_finite, false, 0};
    return {Reach::clean, std::fabs(value) < tiny_, std::fabs(value)};
  }
  // An intermediate of the exact value.
  Factor factor(double value, const Dot& dot) const {
    const bool zero = !(std::fabs(value) > std::max(tiny_, kCancelled * dot.magnitude));
    return {dot.reach, dot.reach == Reach::clean && zero, dot.magnitude};
  }

  // The largest reach of the terms row . vector, and the sum of their magnitudes.
  Dot dot(const void* matrix, std::int64_t row, const Factor* vector, std::int64_t width) {
    row_.resize(at(width));
    decode(p_.type, matrix, row * width, width, row_.data());
    Dot sum;
    for (std::int64_t k = 0; k < width; ++k) {
      const Factor term = times(stored(row_[at(k)]), vector[k]);
      sum.add({term.reach, term.magnitude});
    }
    return sum;
  }

  Factor gate_up(std::int64_t e, int half, std::int64_t j) {
    Dot sum = dot(p_.w13, e * 2 * p_.F + p_.w13_row(half, j), x_.data(), p_.H);
    if (slot() >= 0)
      sum.add(dot(p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], ((slot() * p_.n + e) * 2 + half) * p_.F + j,
                  &bridge_[at((outer_of(e) * 2 + half) * p_.R)], p_.R));
    return factor(s_.y[at(((t_ * p_.n + e) * 2 + half) * p_.F + j)], sum);
  }

  void token(std::int64_t t, std::vector<Reach>& out) {
    t_ = t;
    const auto values = [&](Element type, const void* data, std::int64_t count) {
      std::vector<float> v(at(count));
      decode(type, data, t * count, count, v.data());
      std::vector<Factor> f(v.size());
      std::transform(v.begin(), v.end(), f.begin(), [this](float x) { return stored(x); });
      return f;
    };
    x_ = values(p_.type, p_.x, p_.H);
    const std::vector<Factor> gammas = values(p_.gamma_type, p_.gammas, p_.n);
    bridge_.clear();
    for (std::int64_t i = 0; slot() >= 0 && i < p_.outer * 2 * p_.R; ++i)
      bridge_.push_back(factor(
          s_.bridge[at(t * p_.outer * 2 * p_.R + i)],
          dot(p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A], slot() * p_.outer * 2 * p_.R + i, x_.data(), p_.H)));
    std::vector<Factor> act;
    for (std::int64_t e = 0; e < p_.n; ++e)
      for (std::int64_t j = 0; j < p_.F; ++j) {
        Factor silu = gate_up(e, 0, j);
        const Factor up = gate_up(e, 1, j);
        const std::int64_t i = (t * p_.n + e) * p_.F + j;
        // silu keeps NaN; of an infinite gate the sign is not known here, and silu(-infinity) may be 0 or
        // NaN.
        if (silu.reach == Reach::not_finite) silu.reach = Reach::anything;
        silu.zero = silu.reach == Reach::clean && (silu.zero || std::fabs(s_.silu[at(i)]) < tiny_);
        act.push_back(times(times(silu, up), gammas[at(e)]));
        // |silu(z)| <= |z|, so the product of magnitudes holds; where no factor may vanish the value itself
        // is closer.
        Factor& a = act.back();
        if (a.reach != Reach::clean) continue;
        a.zero = a.zero || std::fabs(s_.act[at(i)]) < tiny_ || std::fabs(s_.product[at(i)]) < tiny_;
        if (!a.zero) a.magnitude = 2 * std::fabs(s_.act[at(i)]);
      }
    std::vector<Factor> down;
    for (std::int64_t o = 0; slot() >= 0 && o < p_.outer; ++o)
      for (std::int64_t q = 0; q < p_.R; ++q) {
        Dot sum;
        for (std::int64_t e = p_.outer == 1 ? 0 : o; e < (p_.outer == 1 ? p_.n : o + 1); ++e)
          sum.add(dot(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], (slot() * p_.n + e) * p_.R + q,
                      &act[at(e * p_.F)], p_.F));
        down.push_back(factor(s_.down_bridge[at((t * p_.outer + o) * p_.R + q)], sum));
      }
    for (std::int64_t h = 0; h < p_.H; ++h) {
      Reach reach = Reach::clean;
      for (std::int64_t e = 0; e < p_.n; ++e)
        reach = std::max(reach, dot(p_.w2, e * p_.H + h, &act[at(e * p_.F)], p_.F).reach);
      for (std::int64_t o = 0; slot() >= 0 && o < p_.outer; ++o)
        reach = std::max(reach, dot(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], (slot() * p_.outer + o) * p_.H + h,
                                    &down[at(o * p_.R)], p_.R)
                                    .reach);
      out.push_back(reach);
    }
  }

  const Problem& p_;
  const Stages& s_;
  const double tiny_;
  std::int64_t t_ = 0;
  std::vector<float> row_;
  std::vector<Factor> x_, bridge_;
};

}  // namespace

std::vector<Reach> reach_of(const Problem& problem, const Stages& stages) {
  return Pass(problem, stages).run();
}

}  // namespace sinktrap::reference
