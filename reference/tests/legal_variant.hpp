// Legal implementations of CONTRACT.md section 5 in f32 that are not the ordered one: other orders of
// summation, products rounded by themselves, one accumulator for base and delta, other ways to compute silu.
// Plain index arithmetic on decoded tensors, sharing nothing with the reference but the rounding.
#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "contract/element.hpp"
#include "random_problem.hpp"

namespace sinktrap::reference::test {

struct Variant {
  enum class Order : std::uint8_t { ascending, descending, pairwise, strided } order = Order::ascending;
  bool truncate = false;         // every addition rounds toward zero, as tensor cores do
  bool one_accumulator = false;  // base and delta in one sum, where no seam stands between them
  bool gamma_first = false;      // silu * (up * gamma)
  bool fast_exp = false;         // exp through exp2f, division through a reciprocal
  bool flush = false;            // f32 subnormals become zero
  std::uint32_t seams = 0;
  double down_scale = 1.0;  // a fault when it is not 1: scales the down delta
};

class VariantForward {
 public:
  VariantForward(const RandomProblem& r, const Variant& v) : r_(r), p_(r.problem), v_(v) {}

  // [T, H], rounded to storage
  std::vector<double> run() const {
    std::vector<double> out;
    for (std::int64_t t = 0; t < p_.T; ++t) token(t, out);
    return out;
  }

 private:
  using Terms = std::vector<float>;  // products, each rounded once

  float seam(std::uint32_t bit, float value) const {
    return v_.seams & bit ? static_cast<float>(round_to(p_.type, value)) : value;
  }
  float flushed(float value) const { return v_.flush && std::fabs(value) < 0x1p-126f ? 0.0f : value; }
  float add(float a, float b) const {
    if (!v_.truncate) return flushed(a + b);
    const double exact = static_cast<double>(a) + b;
    const auto rounded = static_cast<float>(exact);
    return std::fabs(rounded) > std::fabs(exact) ? std::nextafter(rounded, 0.0f) : rounded;
  }
  float sum(const Terms& terms, std::size_t first, std::size_t count) const {
    if (count == 0) return 0;
    if (count == 1) return terms[first];
    return add(sum(terms, first, count / 2), sum(terms, first + count / 2, count - count / 2));
  }
  float sum(const Terms& terms) const {
    if (v_.order == Variant::Order::pairwise) return sum(terms, 0, terms.size());
    float total = 0;
    const std::size_t K = terms.size();
    if (v_.order == Variant::Order::strided) {  // four partial sums, as a split K has them
      for (std::size_t lane = 0; lane < 4; ++lane) {
        float part = 0;
        for (std::size_t k = lane; k < K; k += 4) part = add(part, terms[k]);
        total = add(total, part);
      }
      return total;
    }
    for (std::size_t k = 0; k < K; ++k)
      total = add(total, terms[v_.order == Variant::Order::descending ? K - 1 - k : k]);
    return total;
  }
  void multiply(Terms& terms, const Tensor& weights, std::int64_t row,
                const std::vector<float>& vector) const {
    const auto width = static_cast<std::int64_t>(vector.size());
    for (std::int64_t k = 0; k < width; ++k) {
      const auto w = static_cast<float>(weights.at(row * width + k));
      terms.push_back(flushed(w * vector[static_cast<std::size_t>(k)]));
    }
  }
  float dot(const Tensor& weights, std::int64_t row, const std::vector<float>& vector) const {
    Terms terms;
    multiply(terms, weights, row, vector);
    return sum(terms);
  }
  float silu(float z) const {
    if (!v_.fast_exp) return flushed(z / (1.0f + std::exp(-z)));
    return flushed(z * (1.0f / (1.0f + std::exp2(-z * 1.44269504f))));
  }

  // One projection and its delta, by the seams that stand between them.
  float gate_up(std::int64_t s, std::int64_t e, int half, std::int64_t j, const std::vector<float>& x,
                const std::vector<float>& bridge) const {
    const std::int64_t base_row = e * 2 * p_.F + p_.w13_row(half, j);
    const std::int64_t delta_row = ((s * p_.n + e) * 2 + half) * p_.F + j;
    const bool apart = v_.seams & (SINKTRAP_SEAM(BASE_Y) | SINKTRAP_SEAM(GATE_UP_DELTA));
    if (s >= 0 && v_.one_accumulator && !apart) {
      Terms terms;
      multiply(terms, r_.w13, base_row, x);
      multiply(terms, r_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], delta_row, bridge);
      return seam(SINKTRAP_SEAM(Y), sum(terms));
    }
    float y = seam(SINKTRAP_SEAM(BASE_Y), dot(r_.w13, base_row, x));
    if (s >= 0)
      y = add(y, seam(SINKTRAP_SEAM(GATE_UP_DELTA),
                      dot(r_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], delta_row, bridge)));
    return seam(SINKTRAP_SEAM(Y), y);
  }

  void token(std::int64_t t, std::vector<double>& out) const {
    const std::int64_t s = p_.token_slot[t];
    std::vector<float> x, act[8];
    for (std::int64_t h = 0; h < p_.H; ++h) x.push_back(static_cast<float>(r_.x.at(t * p_.H + h)));
    const auto bridge = [&](std::int64_t e, int half) {
      std::vector<float> b;
      const std::int64_t o = p_.outer == 1 ? 0 : e;
      for (std::int64_t q = 0; s >= 0 && q < p_.R; ++q)
        b.push_back(seam(SINKTRAP_SEAM(GATE_UP_BRIDGE), dot(r_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A],
                                                            ((s * p_.outer + o) * 2 + half) * p_.R + q, x)));
      return b;
    };
    for (std::int64_t e = 0; e < p_.n; ++e) {
      const std::vector<float> gate_bridge = bridge(e, 0), up_bridge = bridge(e, 1);
      const auto gamma = static_cast<float>(r_.gammas.at(t * p_.n + e));
      for (std::int64_t j = 0; j < p_.F; ++j) {
        const float g = seam(SINKTRAP_SEAM(SILU), silu(gate_up(s, e, 0, j, x, gate_bridge)));
        const float u = gate_up(s, e, 1, j, x, up_bridge);
        const bool first = v_.gamma_first && !(v_.seams & SINKTRAP_SEAM(PRODUCT));
        const float a = first ? g * flushed(u * gamma) : seam(SINKTRAP_SEAM(PRODUCT), flushed(g * u)) * gamma;
        act[e].push_back(seam(SINKTRAP_SEAM(ACT), flushed(a)));
      }
    }
    std::vector<std::vector<float>> down(static_cast<std::size_t>(p_.outer));
    for (std::int64_t o = 0; s >= 0 && o < p_.outer; ++o)
      for (std::int64_t q = 0; q < p_.R; ++q) {
        Terms terms;
        for (std::int64_t e = p_.outer == 1 ? 0 : o; e < (p_.outer == 1 ? p_.n : o + 1); ++e)
          multiply(terms, r_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], (s * p_.n + e) * p_.R + q, act[e]);
        down[static_cast<std::size_t>(o)].push_back(seam(SINKTRAP_SEAM(DOWN_BRIDGE), sum(terms)));
      }
    for (std::int64_t h = 0; h < p_.H; ++h) {
      Terms experts, deltas;
      for (std::int64_t e = 0; e < p_.n; ++e)
        experts.push_back(seam(SINKTRAP_SEAM(EXPERT_OUT), dot(r_.w2, e * p_.H + h, act[e])));
      for (std::int64_t o = 0; s >= 0 && o < p_.outer; ++o)
        deltas.push_back(seam(SINKTRAP_SEAM(DOWN_DELTA),
                              static_cast<float>(v_.down_scale) * dot(r_.pool[SINKTRAP_BUFFER_DOWN_LORA_B],
                                                                      (s * p_.outer + o) * p_.H + h,
                                                                      down[static_cast<std::size_t>(o)])));
      const float base = seam(SINKTRAP_SEAM(BASE_OUT), sum(experts));
      out.push_back(round_to(p_.type, s >= 0 ? add(base, sum(deltas)) : base));
    }
  }

  const RandomProblem& r_;
  const Problem& p_;
  Variant v_;
};

}  // namespace sinktrap::reference::test
