#include "reference/reach.hpp"

#include <algorithm>
#include <cmath>

#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

constexpr double kZero = 0x1p-60;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Factor {
  Reach reach;
  bool zero;  // may be zero
};
Factor factor(double value, Reach reach) {
  return {reach, reach == Reach::clean && std::fabs(value) < kZero};
}
Factor stored(double value) {
  if (std::isnan(value)) return {Reach::nan, false};
  if (std::isinf(value)) return {Reach::not_finite, false};
  return factor(value, Reach::clean);
}

// A value that may be anything may be zero too.
Factor times(const Factor& a, const Factor& b) {
  const Reach most = std::max(a.reach, b.reach);
  if (most == Reach::clean) return {Reach::clean, a.zero || b.zero};
  const bool zero = a.zero || b.zero || a.reach == Reach::anything || b.reach == Reach::anything;
  return {zero ? Reach::anything : most, zero};
}

class Pass {
 public:
  Pass(const Problem& p, const Stages& s) : p_(p), s_(s) {}

  std::vector<Reach> run() {
    std::vector<Reach> out;
    for (std::int64_t t = 0; t < p_.T; ++t) token(t, out);
    return out;
  }

 private:
  std::int64_t outer_of(std::int64_t e) const { return p_.outer == 1 ? 0 : e; }
  std::int64_t slot() const { return p_.token_slot[t_]; }

  // The largest reach of the terms row . vector.
  Reach dot(const void* matrix, std::int64_t row, const Factor* vector, std::int64_t width) {
    row_.resize(at(width));
    decode(p_.type, matrix, row * width, width, row_.data());
    Reach reach = Reach::clean;
    for (std::int64_t k = 0; k < width; ++k)
      reach = std::max(reach, times(stored(row_[at(k)]), vector[k]).reach);
    return reach;
  }

  Factor gate_up(std::int64_t e, int half, std::int64_t j) {
    Reach reach = dot(p_.w13, e * 2 * p_.F + p_.w13_row(half, j), x_.data(), p_.H);
    if (slot() >= 0)
      reach = std::max(
          reach, dot(p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], ((slot() * p_.n + e) * 2 + half) * p_.F + j,
                     &bridge_[at((outer_of(e) * 2 + half) * p_.R)], p_.R));
    return factor(s_.y[at(((t_ * p_.n + e) * 2 + half) * p_.F + j)], reach);
  }

  void token(std::int64_t t, std::vector<Reach>& out) {
    t_ = t;
    const auto values = [&](Element type, const void* data, std::int64_t count) {
      std::vector<float> v(at(count));
      decode(type, data, t * count, count, v.data());
      std::vector<Factor> f;
      for (const float x : v) f.push_back(stored(x));
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
        const Reach gate = gate_up(e, 0, j).reach;
        // silu keeps NaN; of an infinite gate the sign is not known here, and silu(-infinity) may be 0 or
        // NaN.
        Factor silu = factor(s_.silu[at((t * p_.n + e) * p_.F + j)],
                             gate == Reach::not_finite ? Reach::anything : gate);
        act.push_back(times(times(silu, gate_up(e, 1, j)), gammas[at(e)]));
      }
    std::vector<Factor> down;
    for (std::int64_t o = 0; slot() >= 0 && o < p_.outer; ++o)
      for (std::int64_t q = 0; q < p_.R; ++q) {
        Reach reach = Reach::clean;
        for (std::int64_t e = p_.outer == 1 ? 0 : o; e < (p_.outer == 1 ? p_.n : o + 1); ++e)
          reach = std::max(reach, dot(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], (slot() * p_.n + e) * p_.R + q,
                                      &act[at(e * p_.F)], p_.F));
        down.push_back(factor(s_.down_bridge[at((t * p_.outer + o) * p_.R + q)], reach));
      }
    for (std::int64_t h = 0; h < p_.H; ++h) {
      Reach reach = Reach::clean;
      for (std::int64_t e = 0; e < p_.n; ++e)
        reach = std::max(reach, dot(p_.w2, e * p_.H + h, &act[at(e * p_.F)], p_.F));
      for (std::int64_t o = 0; slot() >= 0 && o < p_.outer; ++o)
        reach = std::max(reach, dot(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], (slot() * p_.outer + o) * p_.H + h,
                                    &down[at(o * p_.R)], p_.R));
      out.push_back(reach);
    }
  }

  const Problem& p_;
  const Stages& s_;
  std::int64_t t_ = 0;
  std::vector<float> row_;
  std::vector<Factor> x_, bridge_;
};

}  // namespace

std::vector<Reach> reach_of(const Problem& problem, const Stages& stages) {
  return Pass(problem, stages).run();
}

}  // namespace sinktrap::reference
