#include <cmath>
#include <numeric>

#include "reference/forward.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

Stages zero_stages(const Problem& p) {
  const auto zeros = [&](std::int64_t per_token) {
    return std::vector<double>(static_cast<std::size_t>(p.T * per_token));
  };
  Stages s;
  s.base_y = s.delta = s.y = zeros(p.n * 2 * p.F);
  s.bridge = zeros(p.outer * 2 * p.R);
  s.silu = s.product = s.act = zeros(p.n * p.F);
  s.expert_out = zeros(p.n * p.H);
  s.base_out = s.out = zeros(p.H);
  s.down_bridge = zeros(p.outer * p.R);
  s.down_delta = zeros(p.outer * p.H);
  return s;
}

std::vector<double> decode_wide(Element type, const void* data, std::int64_t count) {
  const std::vector<float> values = decode(type, data, count);
  return {values.begin(), values.end()};
}

}  // namespace

double silu_f64(double z) {
  const double value = z / (1.0 + std::exp(-z));
  // Half of the smallest f32 subnormal: what lies below is 0 in every f32 implementation.
  return std::fabs(value) < 0x1p-150 ? 0.0 : value;
}

Stages forward_f64(const Problem& p, bool keep_stages) {
  Stages s = zero_stages(p);
  std::vector<std::int64_t> every_token(static_cast<std::size_t>(p.T));
  std::iota(every_token.begin(), every_token.end(), std::int64_t{0});
  const std::vector<Group> groups = groups_by_slot(p);
  const std::vector<double> x = decode_wide(p.type, p.x, p.T * p.H);
  const std::vector<double> gammas = decode_wide(p.gamma_type, p.gammas, p.T * p.n);
  const Products<double> products(p);

  products.base_y(every_token, x.data(), s.base_y.data());
  for (const Group& g : groups) {
    if (g.slot < 0) continue;
    products.bridge(g, x.data(), s.bridge.data());
    products.delta(g, s.bridge.data(), s.delta.data());
  }
  for (std::size_t i = 0; i < s.y.size(); ++i) s.y[i] = s.base_y[i] + s.delta[i];

  for (std::int64_t te = 0; te < p.T * p.n; ++te)
    for (std::int64_t j = 0; j < p.F; ++j) {
      const double gate = s.y[(te * 2 + 0) * p.F + j], up = s.y[(te * 2 + 1) * p.F + j];
      const std::int64_t i = te * p.F + j;
      s.silu[i] = silu_f64(gate);
      s.product[i] = s.silu[i] * up;
      s.act[i] = s.product[i] * gammas[te];
    }

  products.expert_out(every_token, s.act.data(), s.expert_out.data());
  for (const Group& g : groups) {
    if (g.slot < 0) continue;
    products.down_bridge(g, s.act.data(), s.down_bridge.data());
    products.down_delta(g, s.down_bridge.data(), s.down_delta.data());
  }
  for (std::int64_t t = 0; t < p.T; ++t)
    for (std::int64_t h = 0; h < p.H; ++h) {
      double base = 0, delta = 0;
      for (std::int64_t e = 0; e < p.n; ++e) base += s.expert_out[(t * p.n + e) * p.H + h];
      for (std::int64_t o = 0; o < p.outer; ++o) delta += s.down_delta[(t * p.outer + o) * p.H + h];
      s.base_out[t * p.H + h] = base;
      s.out[t * p.H + h] = base + delta;
    }
  if (keep_stages) return s;
  Stages only;
  only.out = std::move(s.out);
  return only;
}

}  // namespace sinktrap::reference
