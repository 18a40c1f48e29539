#include <cmath>
#include <numeric>

#include "reference/forward_steps.hpp"

namespace sinktrap::reference {
namespace {

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

ForwardSteps::ForwardSteps(const Problem& p)
    : p_(p),
      groups_(groups_by_slot(p)),
      products_(p),
      every_token_(static_cast<std::size_t>(p.T)),
      x_(decode_wide(p.type, p.x, p.T * p.H)),
      gammas_(decode_wide(p.gamma_type, p.gammas, p.T * p.n)) {
  std::iota(every_token_.begin(), every_token_.end(), std::int64_t{0});
}

Stages ForwardSteps::zero_stages() const {
  const auto zeros = [&](std::int64_t per_token) {
    return std::vector<double>(static_cast<std::size_t>(p_.T * per_token));
  };
  Stages s;
  s.base_y = s.delta = s.y = zeros(p_.n * 2 * p_.F);
  s.bridge = zeros(p_.outer * 2 * p_.R);
  s.silu = s.product = s.act = zeros(p_.n * p_.F);
  s.expert_out = zeros(p_.n * p_.H);
  s.base_out = s.out = zeros(p_.H);
  s.down_bridge = zeros(p_.outer * p_.R);
  s.down_delta = zeros(p_.outer * p_.H);
  return s;
}

void ForwardSteps::base_y(Stages& s) const { products_.base_y(every_token_, x_.data(), s.base_y.data()); }

void ForwardSteps::bridge(Stages& s) const {
  for (const Group& g : groups_)
    if (g.slot >= 0) products_.bridge(g, x_.data(), s.bridge.data());
}

void ForwardSteps::delta(Stages& s) const {
  for (const Group& g : groups_)
    if (g.slot >= 0) products_.delta(g, s.bridge.data(), s.delta.data());
}

void ForwardSteps::activation(Stages& s) const {
  for (std::size_t i = 0; i < s.y.size(); ++i) s.y[i] = s.base_y[i] + s.delta[i];
  for (std::int64_t te = 0; te < p_.T * p_.n; ++te)
    for (std::int64_t j = 0; j < p_.F; ++j) {
      const double gate = s.y[(te * 2 + 0) * p_.F + j], up = s.y[(te * 2 + 1) * p_.F + j];
      const std::int64_t i = te * p_.F + j;
      s.silu[i] = silu_f64(gate);
      s.product[i] = s.silu[i] * up;
      s.act[i] = s.product[i] * gammas_[te];
    }
}

void ForwardSteps::expert_out(Stages& s) const {
  products_.expert_out(every_token_, s.act.data(), s.expert_out.data());
}

void ForwardSteps::down_bridge(Stages& s) const {
  for (const Group& g : groups_)
    if (g.slot >= 0) products_.down_bridge(g, s.act.data(), s.down_bridge.data());
}

void ForwardSteps::down_delta(Stages& s) const {
  for (const Group& g : groups_)
    if (g.slot >= 0) products_.down_delta(g, s.down_bridge.data(), s.down_delta.data());
}

void ForwardSteps::out(Stages& s) const {
  for (std::int64_t t = 0; t < p_.T; ++t)
    for (std::int64_t h = 0; h < p_.H; ++h) {
      double base = 0, delta = 0;
      for (std::int64_t e = 0; e < p_.n; ++e) base += s.expert_out[(t * p_.n + e) * p_.H + h];
      for (std::int64_t o = 0; o < p_.outer; ++o) delta += s.down_delta[(t * p_.outer + o) * p_.H + h];
      s.base_out[t * p_.H + h] = base;
      s.out[t * p_.H + h] = base + delta;
    }
}

Stages forward_f64(const Problem& p, bool keep_stages) {
  const ForwardSteps steps(p);
  Stages s = steps.zero_stages();
  steps.base_y(s);
  steps.bridge(s);
  steps.delta(s);
  steps.activation(s);
  steps.expert_out(s);
  steps.down_bridge(s);
  steps.down_delta(s);
  steps.out(s);
  if (keep_stages) return s;
  Stages only;
  only.out = std::move(s.out);
  return only;
}

}  // namespace sinktrap::reference
