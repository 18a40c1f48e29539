// The probabilistic bound: on inputs that were drawn independently every rounding of section 5 is an error of
// its own sign, so their squares add up, not their magnitudes.
//
// A rounding made at some value ("source") has an error of at most b and mean zero. To first order it reaches
// an output as c b, with c the signed derivative of the output by that value. Azuma and Hoeffding:
//     P(|sum of c_i e_i| > lambda sqrt(sum c_i^2 b_i^2)) <= 2 exp(-lambda^2 / 2).
// Signed matters: a bridge error reaches an output through every feature at once, with c = row of (w2 +
// down_lora_b down_lora_a) times d act / d y times gate_up_lora_b, and most of that cancels.
//
// Not independent and therefore added linearly: the second order of silu, and the final rounding.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/bound.hpp"
#include "reference/bound_units.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

// 2 exp(-8.1^2 / 2) = 1.1e-14 for each element.
constexpr double kLambda = 8.1;
// A sum of K terms errs by sqrt(K) u S where its roundings are independent (Higham and Mary 2019, "A new
// approach to probabilistic rounding error analysis", with lambda kept outside). What truncates, drifts
// toward zero instead: by up to u |partial sum| at each of at most K places. The partial sums of
// independently drawn terms stay below lambda sqrt(sum w^2 v^2), and for normal factors sqrt(sum w^2 v^2) =
// (pi / 2) S / sqrt(K): the drift is at most lambda times (pi / 2) sqrt(K) u S.
constexpr double kDrift = 1.5707963267948966;
// Magnitudes that a seam rounds contain the errors made before: 4 deviations of them, enough for a half unit
// that changes only at powers of two.
constexpr double kDeviations = 4;
// sum over the outer terms and the base: 2 units each, f32 additions to nearest or truncating.
constexpr double kAddition = 2 * 0x1p-24;

double random_sum(std::int64_t K, double S) {
  const double k = static_cast<double>(K);
  return (1 + kDrift) * std::sqrt(k) * kUnit * S;
}
double square(double v) { return v * v; }

std::vector<double> mapped(const std::vector<double>& v, double (*f)(double)) {
  std::vector<double> out(v.size());
  std::transform(v.begin(), v.end(), out.begin(), f);
  return out;
}
std::vector<double> absolute(const std::vector<double>& v) {
  return mapped(v, [](double x) { return std::fabs(x); });
}

class Independent {
 public:
  Independent(const Problem& p, const Stages& s, std::uint32_t seams, std::int32_t silu_class)
      : p_(p), s_(s), round_(p.type, seams), silu_class_(silu_class), groups_(groups_by_slot(p)) {
    every_token_.resize(static_cast<std::size_t>(p.T));
    std::iota(every_token_.begin(), every_token_.end(), std::int64_t{0});
  }

  Bound run() {
    gate_up();
    activation();
    down();
    Bound bound;
    bound.error.resize(at(p_.T * p_.H));
    for (std::size_t i = 0; i < bound.error.size(); ++i) {
      const double error = kLambda * std::sqrt(variance_[i]) + bias_[i];
      const double stored = round_.store(std::fabs(s_.out[i]), error);
      bound.error[i] = std::isnan(stored) ? kInfinity : stored;
    }
    return bound;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t outer_of(std::int64_t e) const { return p_.outer == 1 ? 0 : e; }
  bool adapted(std::int64_t t) const { return p_.token_slot[t] >= 0; }
  // Rounding at a seam of this magnitude, as an error of its own.
  double seam(std::uint32_t bit, double magnitude) const { return round_.seam(bit, magnitude, 0); }

  template <class Apply>
  std::vector<double> product(Weights weights, std::int64_t size, Apply apply) const {
    std::vector<double> out(at(size));
    apply(Products<double>(p_, weights), out.data());
    return out;
  }
  template <class Apply>
  std::vector<double> lora(Weights weights, std::int64_t size, Apply apply) const {
    return product(weights, size, [&](const Products<double>& products, double* out) {
      for (const Group& g : groups_)
        if (g.slot >= 0) apply(products, g, out);
    });
  }

  // own_: squares of the errors made at or before y, without those that come through the bridges, which are
  // bridge_ (at the bridges) and through_ (at y).
  void gate_up() {
    const std::int64_t per_token = p_.n * 2 * p_.F;
    const std::vector<float> x = decode(p_.type, p_.x, p_.T * p_.H);
    const std::vector<double> ax = absolute({x.begin(), x.end()});
    const auto base = product(Weights::magnitude, p_.T * per_token, [&](const auto& products, double* out) {
      products.base_y(every_token_, ax.data(), out);
    });
    const auto shrink =
        lora(Weights::magnitude, p_.T * p_.outer * 2 * p_.R,
             [&](const auto& products, const Group& g, double* out) { products.bridge(g, ax.data(), out); });
    bridge_.resize(shrink.size());
    std::vector<double> top(shrink.size());
    for (std::size_t i = 0; i < shrink.size(); ++i) {
      const double e = random_sum(p_.H, shrink[i]), magnitude = std::fabs(s_.bridge[i]);
      bridge_[i] = square(e) + square(seam(SINKTRAP_SEAM(GATE_UP_BRIDGE), magnitude + e));
      top[i] = magnitude + kLambda * std::sqrt(bridge_[i]);
    }
    const auto expand =
        lora(Weights::magnitude, p_.T * per_token,
             [&](const auto& products, const Group& g, double* out) { products.delta(g, top.data(), out); });
    through_ = lora(
        Weights::square, p_.T * per_token,
        [&](const auto& products, const Group& g, double* out) { products.delta(g, bridge_.data(), out); });
    own_.resize(through_.size());
    for (std::int64_t i = 0; i < p_.T * per_token; ++i) {
      const bool lora = adapted(i / per_token);
      const std::int64_t K = p_.H + (lora ? p_.R : 0);  // they may share one accumulator
      const double base_y = std::fabs(s_.base_y[at(i)]), delta = std::fabs(s_.delta[at(i)]);
      double v = square(random_sum(K, base[at(i)]));
      v += square(seam(SINKTRAP_SEAM(BASE_Y), base_y + std::sqrt(v)));
      if (lora) {
        const double e = random_sum(K, expand[at(i)]);
        v += square(e) + square(seam(SINKTRAP_SEAM(GATE_UP_DELTA), delta + e));
        v += square(kAddition * (base_y + delta));
      }
      const double sd = std::sqrt(v + through_[at(i)]);
      own_[at(i)] = v + square(seam(SINKTRAP_SEAM(Y), std::fabs(s_.y[at(i)]) + kDeviations * sd));
    }
  }

  // act_: squares at act, own errors only; slope_: d act / d y, [T, n, 2, F]; bend_: the second order.
  void activation() {
    const std::vector<float> gammas = decode(p_.gamma_type, p_.gammas, p_.T * p_.n);
    act_.resize(at(p_.T * p_.n * p_.F));
    bend_.resize(act_.size());
    slope_.resize(own_.size());
    for (std::int64_t i = 0; i < p_.T * p_.n * p_.F; ++i) {
      const std::int64_t te = i / p_.F, gate = te * 2 * p_.F + i % p_.F, up = gate + p_.F;
      const double z = s_.y[at(gate)], u = s_.y[at(up)], gamma = gammas[at(te)], G = std::fabs(gamma);
      const double vg = own_[at(gate)] + through_[at(gate)], vu = own_[at(up)] + through_[at(up)];
      const double eg = kLambda * std::sqrt(vg), eu = kLambda * std::sqrt(vu);
      const double sigmoid = 1 / (1 + std::exp(-z)), slope = sigmoid * (1 + z * (1 - sigmoid));
      const double s = s_.silu[at(i)], magnitude = std::fabs(s);
      // |silu'(z^)| <= |silu'(z)| + e sup|silu''| / 2 halfway; each factor at the middle of the other's
      // range.
      slope_[at(gate)] = std::copysign(std::fabs(slope) + kHalfCurvature * eg, slope) *
                         std::copysign(std::fabs(u) + eu / 2, u) * gamma;
      slope_[at(up)] = std::copysign(magnitude + eg / 2 * std::fabs(slope), s) * gamma;
      const double of_silu = silu_class_ == SINKTRAP_SILU_ABSOLUTE
                                 ? (std::fabs(z) + eg) * kAbsoluteSilu
                                 : (std::fabs(z) + eg + kRelativeOffset) * kRelativeSilu * (magnitude + eg);
      const double product = std::fabs(s_.product[at(i)]), act = std::fabs(s_.act[at(i)]);
      double v = square(slope_[at(gate)]) * own_[at(gate)] + square(slope_[at(up)]) * own_[at(up)];
      v += square(G * (std::fabs(u) + eu)) *
           (square(of_silu) + square(seam(SINKTRAP_SEAM(SILU), magnitude + eg)));
      const double sd = std::sqrt(v) / (G == 0 ? 1 : G);
      v += square(G * (seam(SINKTRAP_SEAM(PRODUCT), product + kDeviations * sd) + kAddition * product));
      v += square(seam(SINKTRAP_SEAM(ACT), act + kDeviations * std::sqrt(v)) + kAddition * act);
      // Gates so low that a fast division or a clamped exp may count are not of this family.
      act_[at(i)] = z - eg > -kExpEdge / 2 ? v : kInfinity;
      bend_[at(i)] = G * kHalfCurvature * vg * std::fabs(u);
    }
  }

  void down() {
    variance_.assign(at(p_.T * p_.H), 0.0);
    bias_.assign(variance_.size(), 0.0);
    for (const Group& g : groups_) through_features(g);
    own_roundings();
  }

  // What reaches the outputs through act: its own errors, and the bridges' by their signed Jacobian.
  void through_features(const Group& g) {
    const std::int64_t nF = p_.n * p_.F;
    // effect[h][e, j] = d out[h] / d act[e, j] = w2 + down_lora_b . down_lora_a
    const std::vector<double> effect = effect_of(g.slot);
    for (const std::int64_t t : g.tokens) {
      const double *act = &act_[at(t * nF)], *bend = &bend_[at(t * nF)];
      for (std::int64_t h = 0; h < p_.H; ++h) {
        const double* c = &effect[at(h * nF)];
        double v = 0, b = 0;
        for (std::int64_t i = 0; i < nF; ++i) v += square(c[i]) * act[i], b += std::fabs(c[i]) * bend[i];
        variance_[at(t * p_.H + h)] += v;
        bias_[at(t * p_.H + h)] += b;
      }
      if (g.slot >= 0) through_bridges(g.slot, t, effect);
    }
  }

  std::vector<double> effect_of(std::int64_t slot) const {
    const std::int64_t nF = p_.n * p_.F;
    std::vector<double> effect(at(p_.H * nF));
    std::vector<float> row(at(p_.F));
    for (std::int64_t e = 0; e < p_.n; ++e)
      for (std::int64_t h = 0; h < p_.H; ++h) {
        decode(p_.type, p_.w2, (e * p_.H + h) * p_.F, p_.F, row.data());
        std::copy(row.begin(), row.end(), effect.begin() + h * nF + e * p_.F);
      }
    if (slot < 0) return effect;
    std::vector<float> b(at(p_.H * p_.R));
    for (std::int64_t e = 0; e < p_.n; ++e) {
      decode(p_.type, p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], (slot * p_.outer + outer_of(e)) * p_.H * p_.R,
             p_.H * p_.R, b.data());
      for (std::int64_t q = 0; q < p_.R; ++q) {
        decode(p_.type, p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], ((slot * p_.n + e) * p_.R + q) * p_.F, p_.F,
               row.data());
        for (std::int64_t h = 0; h < p_.H; ++h) {
          const double w = b[at(h * p_.R + q)];
          double* to = &effect[at(h * nF + e * p_.F)];
          for (std::int64_t j = 0; w != 0 && j < p_.F; ++j) to[j] += w * row[at(j)];
        }
      }
    }
    return effect;
  }

  void through_bridges(std::int64_t slot, std::int64_t t, const std::vector<double>& effect) {
    const std::int64_t nF = p_.n * p_.F, R = p_.R;
    std::vector<float> b(at(p_.F * R));
    std::vector<double> jacobian(at(R)), weighted(at(nF * R));
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t e = 0; e < p_.n; ++e) {
        decode(p_.type, p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], ((slot * p_.n + e) * 2 + half) * p_.F * R,
               p_.F * R, b.data());
        for (std::int64_t j = 0; j < p_.F; ++j) {
          const double slope = slope_[at(((t * p_.n + e) * 2 + half) * p_.F + j)];
          for (std::int64_t q = 0; q < R; ++q)
            weighted[at((e * p_.F + j) * R + q)] = slope * b[at(j * R + q)];
        }
      }
      for (std::int64_t o = 0; o < p_.outer; ++o) {
        const std::int64_t first = p_.outer == 1 ? 0 : o * p_.F, last = p_.outer == 1 ? nF : first + p_.F;
        const double* errors = &bridge_[at(((t * p_.outer + o) * 2 + half) * R)];
        for (std::int64_t h = 0; h < p_.H; ++h) {
          std::fill(jacobian.begin(), jacobian.end(), 0.0);
          for (std::int64_t i = first; i < last; ++i) {
            const double c = effect[at(h * nF + i)];
            const double* w = &weighted[at(i * R)];
            for (std::int64_t q = 0; q < R; ++q) jacobian[at(q)] += c * w[q];
          }
          double v = 0;
          for (std::int64_t q = 0; q < R; ++q) v += square(jacobian[at(q)]) * errors[q];
          variance_[at(t * p_.H + h)] += v;
        }
      }
    }
  }

  // Roundings of the down projection itself.
  void own_roundings() {
    const std::vector<double> act = absolute(s_.act);
    const auto base = product(Weights::magnitude, p_.T * p_.n * p_.H, [&](const auto& products, double* out) {
      products.expert_out(every_token_, act.data(), out);
    });
    const auto shrink = lora(
        Weights::magnitude, p_.T * p_.outer * p_.R,
        [&](const auto& products, const Group& g, double* out) { products.down_bridge(g, act.data(), out); });
    const auto before =
        lora(Weights::square, p_.T * p_.outer * p_.R, [&](const auto& products, const Group& g, double* out) {
          products.down_bridge(g, act_.data(), out);
        });
    const std::int64_t K = p_.outer == 1 ? p_.n * p_.F : p_.F;
    std::vector<double> own(shrink.size()), top(shrink.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double e = random_sum(K, shrink[i]), magnitude = std::fabs(s_.down_bridge[i]);
      const double sd = std::sqrt(before[i] + square(e));
      own[i] = square(e) + square(seam(SINKTRAP_SEAM(DOWN_BRIDGE), magnitude + kDeviations * sd));
      top[i] = magnitude + kLambda * std::sqrt(before[i] + own[i]);
    }
    const std::int64_t size = p_.T * p_.outer * p_.H;
    const auto expand = lora(
        Weights::magnitude, size,
        [&](const auto& products, const Group& g, double* out) { products.down_delta(g, top.data(), out); });
    const auto carried = lora(Weights::square, size, [&](const auto& products, const Group& g, double* out) {
      products.down_delta(g, own.data(), out);
    });
    for (std::int64_t t = 0; t < p_.T; ++t)
      for (std::int64_t h = 0; h < p_.H; ++h) element(t, h, base, expand, carried);
  }

  void element(std::int64_t t, std::int64_t h, const std::vector<double>& base,
               const std::vector<double>& expand, const std::vector<double>& carried) {
    double& v = variance_[at(t * p_.H + h)];
    const bool lora = adapted(t);
    const std::int64_t K = p_.n * p_.F + (lora ? p_.outer * p_.R : 0);  // they may share one accumulator
    double sum = 0, sd = std::sqrt(v);
    for (std::int64_t e = 0; e < p_.n; ++e) {
      const std::int64_t i = (t * p_.n + e) * p_.H + h;
      sum += base[at(i)];
      v += square(seam(SINKTRAP_SEAM(EXPERT_OUT), std::fabs(s_.expert_out[at(i)]) + kDeviations * sd));
    }
    v += square(random_sum(K, sum));
    const double base_out = std::fabs(s_.base_out[at(t * p_.H + h)]);
    v += square(seam(SINKTRAP_SEAM(BASE_OUT), base_out + kDeviations * std::sqrt(v)));
    if (!lora) return;
    sd = std::sqrt(v);
    double each = 0, total = 0, terms = 0;
    for (std::int64_t o = 0; o < p_.outer; ++o) {
      const std::int64_t i = (t * p_.outer + o) * p_.H + h;
      const double magnitude = std::fabs(s_.down_delta[at(i)]);
      each += square(seam(SINKTRAP_SEAM(DOWN_DELTA), magnitude + kDeviations * sd));
      v += carried[at(i)] + square(random_sum(K, expand[at(i)]));
      total += s_.down_delta[at(i)];
      terms += magnitude;
    }
    v += std::max(each, square(seam(SINKTRAP_SEAM(DOWN_DELTA), std::fabs(total) + kDeviations * sd)));
    v += square(kAddition * static_cast<double>(p_.outer + 1) * (base_out + terms));
  }

  const Problem& p_;
  const Stages& s_;
  const Rounding round_;
  const std::int32_t silu_class_;
  const std::vector<Group> groups_;
  std::vector<std::int64_t> every_token_;
  std::vector<double> own_, through_, bridge_, slope_, act_, bend_, variance_, bias_;
};

}  // namespace

double independent_bound_work(const Problem& p) {
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.F) * static_cast<double>(p.H);
  return weights * static_cast<double>(p.R) * static_cast<double>(2 * p.T + p.S);
}

Bound independent_bound(const Problem& problem, const Stages& stages, std::uint32_t seams,
                        std::int32_t silu_class) {
  return Independent(problem, stages, seams, silu_class).run();
}

}  // namespace sinktrap::reference
