// The worst case of every rounding that a legal implementation may make, carried through CONTRACT.md
// section 5.
//
// A computed intermediate v^ of exact value v is described by |v| (from the f64 pass) and e with |v^ - v| <=
// e. Each step states the inequality for its result. The f64 pass itself errs by some K 2^-53 sum |w||v|, a
// 2^-30th of the f32 terms.
#include "reference/bound.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/bound_units.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

// An intermediate, or an input whose subnormals may be read as zero.
struct Value {
  std::vector<double> magnitude, error;
};

Value as_value(const std::vector<double>& exact) {
  Value v{exact, std::vector<double>(exact.size())};
  for (double& m : v.magnitude) m = std::fabs(m);
  return v;
}
Value input(Element type, const void* data, std::int64_t count) {
  const std::vector<float> stored = decode(type, data, count);
  Value v = as_value({stored.begin(), stored.end()});
  for (std::size_t i = 0; i < stored.size(); ++i)
    if (v.magnitude[i] < kSmallest) v.error[i] = v.magnitude[i];
  return v;
}

// A product of stored weights with a value: sum |w| (|v| + e), and the part of its error that comes with the
// operands, sum |w| e + sum |w, where subnormal| (|v| + e).
struct Carried {
  std::vector<double> sum, error;
};

class Analysis {
 public:
  Analysis(const Problem& p, const Stages& s, std::uint32_t seams, std::int32_t silu_class)
      : p_(p), s_(s), round_(p.type, seams), silu_class_(silu_class), groups_(groups_by_slot(p)) {
    every_token_.resize(static_cast<std::size_t>(p.T));
    std::iota(every_token_.begin(), every_token_.end(), std::int64_t{0});
  }
  Bound run();

 private:
  Value gate_up() const;
  Value activation(const Value& y) const;
  Value down_bridge(const Value& act) const;

  // apply(products, in, out) adds one product of section 5 to out.
  template <class Apply>
  Carried carry(const Value& v, std::int64_t out_size, Apply apply) const {
    const auto product = [&](Weights weights, const std::vector<double>& in) {
      std::vector<double> out(static_cast<std::size_t>(out_size));
      if (std::any_of(in.begin(), in.end(), [](double x) { return x != 0; }))
        apply(Products<double>(p_, weights), in.data(), out.data());
      return out;
    };
    const auto add = [](std::vector<double>& to, const std::vector<double>& more) {
      std::transform(to.begin(), to.end(), more.begin(), to.begin(), std::plus<>());
    };
    Carried c{product(Weights::magnitude, v.magnitude), product(Weights::magnitude, v.error)};
    add(c.sum, c.error);
    // An f16 value is never below the f32 normal range.
    if (p_.type != Element::f16) {
      std::vector<double> top = v.magnitude;
      add(top, v.error);
      add(c.error, product(Weights::subnormal, top));
    }
    return c;
  }
  // The same for the tokens that have an adapter.
  template <class Apply>
  Carried carry_lora(const Value& v, std::int64_t out_size, Apply apply) const {
    return carry(v, out_size, [&](const Products<double>& products, const double* in, double* out) {
      for (const Group& g : groups_)
        if (g.slot >= 0) apply(products, g, in, out);
    });
  }

  bool adapted(std::int64_t token) const { return p_.token_slot[token] >= 0; }

  const Problem& p_;
  const Stages& s_;
  Rounding round_;
  std::int32_t silu_class_;
  std::vector<Group> groups_;
  std::vector<std::int64_t> every_token_;
};

// gate and up: y = w13 . x + gate_up_lora_b . (gate_up_lora_a . x)
Value Analysis::gate_up() const {
  const Value x = input(p_.type, p_.x, p_.T * p_.H);
  const std::int64_t per_token = p_.n * 2 * p_.F;
  const Carried base =
      carry(x, p_.T * per_token, [&](const Products<double>& products, const double* in, double* out) {
        products.base_y(every_token_, in, out);
      });

  Value bridge = as_value(s_.bridge);
  const Carried shrink = carry_lora(x, p_.T * p_.outer * 2 * p_.R,
                                    [](const Products<double>& products, const Group& g, const double* in,
                                       double* out) { products.bridge(g, in, out); });
  for (std::size_t i = 0; i < bridge.error.size(); ++i)
    bridge.error[i] = round_.seam(SINKTRAP_SEAM(GATE_UP_BRIDGE), bridge.magnitude[i],
                                  shrink.error[i] + sum_error(p_.H, shrink.sum[i]));
  const Carried expand = carry_lora(bridge, p_.T * per_token,
                                    [](const Products<double>& products, const Group& g, const double* in,
                                       double* out) { products.delta(g, in, out); });

  Value y = as_value(s_.y);
  for (std::int64_t i = 0; i < p_.T * per_token; ++i) {
    const bool lora = adapted(i / per_token);
    // Base and delta may share one accumulator, in any order: each term then meets the roundings of all H +
    // R.
    const std::int64_t K = p_.H + (lora ? p_.R : 0);
    const double base_y = std::fabs(s_.base_y[i]), delta = std::fabs(s_.delta[i]);
    double error = round_.seam(SINKTRAP_SEAM(BASE_Y), base_y, base.error[i] + sum_error(K, base.sum[i]));
    if (lora) {
      const double delta_error =
          round_.seam(SINKTRAP_SEAM(GATE_UP_DELTA), delta, expand.error[i] + sum_error(K, expand.sum[i]));
      // Two terms added; their accumulator holds no more than both sums of magnitudes.
      error += delta_error + sum_error(2, base_y + error + delta + delta_error);
      if (!(base.sum[i] + expand.sum[i] <= kLargest / 2)) error = kInfinity;
    }
    y.error[i] = round_.seam(SINKTRAP_SEAM(Y), y.magnitude[i], error);
  }
  return y;
}

// act = silu(gate) * up * gamma
Value Analysis::activation(const Value& y) const {
  const Value gamma = input(p_.gamma_type, p_.gammas, p_.T * p_.n);
  Value act = as_value(s_.act);
  for (std::int64_t i = 0; i < p_.T * p_.n * p_.F; ++i) {
    const std::int64_t te = i / p_.F, gate = te * 2 * p_.F + i % p_.F, up = gate + p_.F;
    const double z = s_.y[gate], z_error = y.error[gate], z_top = std::fabs(z) + z_error;
    const double u = y.magnitude[up], u_error = y.error[up];
    const double sigmoid = 1 / (1 + std::exp(-z)), slope = std::fabs(sigmoid * (1 + z * (1 - sigmoid)));

    // |silu(z^) - silu(z)| <= (|silu'(z)| + e/2 sup |silu''|) e <= sup |silu'| e, then the class of silu at
    // z^.
    const double s = std::fabs(s_.silu[i]);
    double s_error = std::min(slope + kHalfCurvature * z_error, kSteepestSilu) * z_error;
    s_error += silu_class_ == SINKTRAP_SILU_ABSOLUTE
                   ? z_top * kAbsoluteSilu
                   : (z_top + kRelativeOffset) * kRelativeSilu * (s + s_error);
    if (!(z - z_error >= -kExpEdge)) s_error += z_top * std::exp(-kExpEdge);
    s_error = round_.seam(SINKTRAP_SEAM(SILU), s, s_error + kSmallest);

    // |ab - a^b^| <= e_a (|b| + e_b) + |a| e_b, and one rounding; the factors come in any order, so a flushed
    // pair of them may still meet the third.
    const double gamma_top = gamma.magnitude[te] + gamma.error[te], s_top = s + s_error, u_top = u + u_error;
    const double product = std::fabs(s_.product[i]);
    double p_error = s_error * u_top + s * u_error;
    p_error = round_.seam(SINKTRAP_SEAM(PRODUCT), product, p_error + kUnit * (product + p_error) + kSmallest);
    double a_error = p_error * gamma_top + product * gamma.error[te];
    a_error += kUnit * (act.magnitude[i] + a_error) + kSmallest * (gamma_top + s_top + u_top + 1);
    if (!(std::max({s_top * u_top, s_top * gamma_top, u_top * gamma_top}) <= kLargest)) a_error = kInfinity;
    act.error[i] = round_.seam(SINKTRAP_SEAM(ACT), act.magnitude[i], a_error);
  }
  return act;
}

// d_br = sum_e down_lora_a[e] . act[e], or one per expert
Value Analysis::down_bridge(const Value& act) const {
  Value bridge = as_value(s_.down_bridge);
  const Carried shrink = carry_lora(act, p_.T * p_.outer * p_.R,
                                    [](const Products<double>& products, const Group& g, const double* in,
                                       double* out) { products.down_bridge(g, in, out); });
  const std::int64_t K = p_.outer == 1 ? p_.n * p_.F : p_.F;
  for (std::size_t i = 0; i < bridge.error.size(); ++i)
    bridge.error[i] = round_.seam(SINKTRAP_SEAM(DOWN_BRIDGE), bridge.magnitude[i],
                                  shrink.error[i] + sum_error(K, shrink.sum[i]));
  return bridge;
}

// out = sum_e w2[e] . act[e] + sum_o down_lora_b[o] . d_br[o]
Bound Analysis::run() {
  const Value act = activation(gate_up());
  const Value bridge = down_bridge(act);
  const Carried base =
      carry(act, p_.T * p_.n * p_.H, [&](const Products<double>& products, const double* in, double* out) {
        products.expert_out(every_token_, in, out);
      });
  const Carried expand = carry_lora(bridge, p_.T * p_.outer * p_.H,
                                    [](const Products<double>& products, const Group& g, const double* in,
                                       double* out) { products.down_delta(g, in, out); });
  Bound bound;
  bound.error.resize(static_cast<std::size_t>(p_.T * p_.H));
  for (std::int64_t t = 0; t < p_.T; ++t)
    for (std::int64_t h = 0; h < p_.H; ++h) {
      // All experts and the delta may share one accumulator.
      const bool lora = adapted(t);
      const std::int64_t K = p_.n * p_.F + (lora ? p_.outer * p_.R : 0);
      double terms = 0, accumulated = 0;  // sums of |term| + e, and of |w||v|
      double error = 0;
      for (std::int64_t e = 0; e < p_.n; ++e) {
        const std::int64_t i = (t * p_.n + e) * p_.H + h;
        const double magnitude = std::fabs(s_.expert_out[i]);
        const double e_error =
            round_.seam(SINKTRAP_SEAM(EXPERT_OUT), magnitude, base.error[i] + sum_error(K, base.sum[i]));
        error += e_error;
        terms += magnitude + e_error;
        accumulated += base.sum[i];
      }
      if (p_.n > 1) error += sum_error(p_.n, terms);
      error = round_.seam(SINKTRAP_SEAM(BASE_OUT), std::fabs(s_.base_out[t * p_.H + h]), error);

      if (lora) {
        double each = 0, before = 0,
               sum = 0;  // errors with a seam at each outer term, and without; the sum itself
        for (std::int64_t o = 0; o < p_.outer; ++o) {
          const std::int64_t i = (t * p_.outer + o) * p_.H + h;
          const double magnitude = std::fabs(s_.down_delta[i]);
          const double o_error = expand.error[i] + sum_error(K, expand.sum[i]);
          const double o_seam = round_.seam(SINKTRAP_SEAM(DOWN_DELTA), magnitude, o_error);
          before += o_error;
          each += o_seam;
          sum += s_.down_delta[i];
          terms += magnitude + o_seam;
          accumulated += expand.sum[i];
        }
        if (p_.outer > 1) before += sum_error(p_.outer, terms);
        error += std::max(each, round_.seam(SINKTRAP_SEAM(DOWN_DELTA), std::fabs(sum), before));
        error += sum_error(p_.n + p_.outer, terms);  // the terms added in any order
      }
      if (!(accumulated <= kLargest / 2)) error = kInfinity;
      error = round_.store(std::fabs(s_.out[t * p_.H + h]), error);
      // A NaN comes of an error or a magnitude that is not finite: not judged.
      bound.error[static_cast<std::size_t>(t * p_.H + h)] = std::isnan(error) ? kInfinity : error;
    }
  return bound;
}

}  // namespace

Bound worst_case_bound(const Problem& problem, const Stages& stages, std::uint32_t seams,
                       std::int32_t silu_class) {
  return Analysis(problem, stages, seams, silu_class).run();
}

}  // namespace sinktrap::reference
