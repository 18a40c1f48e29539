#include <cmath>
#include <numeric>

#include "contract/ordered.h"
#include "reference/forward.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

// Rounds a whole stage at its seam, where that seam is declared.
class Seams {
 public:
  Seams(Element type, std::uint32_t mask) : type_(type), mask_(mask) {}
  float at(std::uint32_t seam, float v) const { return mask_ & seam ? round_storage(type_, v) : v; }
  void at(std::uint32_t seam, std::vector<float>& stage) const {
    for (float& v : stage) v = at(seam, v);
  }

 private:
  Element type_;
  std::uint32_t mask_;
};

std::vector<float> zeros(std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count)); }

// ((v[0] + v[1]) + v[2]) + ...
float sum_in_order(const float* v, std::int64_t count, std::int64_t stride) {
  float sum = v[0];
  for (std::int64_t i = 1; i < count; ++i) sum = sum + v[i * stride];
  return sum;
}

}  // namespace

float ordered_exp(float x) {
  if (std::isnan(x)) return x;
  if (x > SINKTRAP_EXP_OVERFLOW) return HUGE_VALF;
  if (x < SINKTRAP_EXP_UNDERFLOW) return 0.0f;
  const float k = std::rint(x * SINKTRAP_EXP_LOG2E);
  float r = std::fma(k, -SINKTRAP_EXP_LN2_HIGH, x);
  r = std::fma(k, -SINKTRAP_EXP_LN2_LOW, r);
  float q = SINKTRAP_EXP_C0;
  q = std::fma(q, r, SINKTRAP_EXP_C1);
  q = std::fma(q, r, SINKTRAP_EXP_C2);
  q = std::fma(q, r, SINKTRAP_EXP_C3);
  q = std::fma(q, r, SINKTRAP_EXP_C4);
  q = std::fma(q, r, SINKTRAP_EXP_C5);
  q = std::fma(q, r * r, r);
  q = q + 1.0f;
  // Two factors, because 2^k alone leaves the normal range at both ends where the result does not.
  const int whole = static_cast<int>(k), first = static_cast<int>(std::floor(k / 2.0f));
  return (q * std::ldexp(1.0f, first)) * std::ldexp(1.0f, whole - first);
}

float ordered_silu(float z) { return z / (1.0f + ordered_exp(-z)); }

std::vector<std::byte> forward_ordered(const Problem& p, std::uint32_t seams) {
  const Seams seam(p.type, seams);
  const Products<float> dots(p);
  std::vector<std::int64_t> every_token(static_cast<std::size_t>(p.T));
  std::iota(every_token.begin(), every_token.end(), std::int64_t{0});
  const std::vector<Group> groups = groups_by_slot(p);
  const std::vector<float> x = decode(p.type, p.x, p.T * p.H);
  const std::vector<float> gammas = decode(p.gamma_type, p.gammas, p.T * p.n);

  std::vector<float> y = zeros(p.T * p.n * 2 * p.F);  // base first, then the sum
  dots.base_y(every_token, x.data(), y.data());
  seam.at(SINKTRAP_SEAM(BASE_Y), y);

  std::vector<float> bridge = zeros(p.T * p.outer * 2 * p.R), delta = zeros(p.T * p.n * 2 * p.F);
  for (const Group& g : groups)
    if (g.slot >= 0) dots.bridge(g, x.data(), bridge.data());
  seam.at(SINKTRAP_SEAM(GATE_UP_BRIDGE), bridge);
  for (const Group& g : groups)
    if (g.slot >= 0) dots.delta(g, bridge.data(), delta.data());
  seam.at(SINKTRAP_SEAM(GATE_UP_DELTA), delta);
  const std::int64_t per_token = p.n * 2 * p.F;
  for (const Group& g : groups)
    if (g.slot >= 0)
      for (std::int64_t t : g.tokens)
        for (std::int64_t i = t * per_token; i < (t + 1) * per_token; ++i) y[i] = y[i] + delta[i];
  seam.at(SINKTRAP_SEAM(Y), y);

  std::vector<float> act = zeros(p.T * p.n * p.F);
  for (std::int64_t te = 0; te < p.T * p.n; ++te)
    for (std::int64_t j = 0; j < p.F; ++j) {
      const float gate = y[(te * 2 + 0) * p.F + j], up = y[(te * 2 + 1) * p.F + j];
      const float s = seam.at(SINKTRAP_SEAM(SILU), ordered_silu(gate));
      const float product = seam.at(SINKTRAP_SEAM(PRODUCT), s * up);
      act[te * p.F + j] = seam.at(SINKTRAP_SEAM(ACT), product * gammas[te]);
    }

  std::vector<float> expert_out = zeros(p.T * p.n * p.H);
  dots.expert_out(every_token, act.data(), expert_out.data());
  seam.at(SINKTRAP_SEAM(EXPERT_OUT), expert_out);

  std::vector<float> down_bridge = zeros(p.T * p.outer * p.R), down_delta = zeros(p.T * p.outer * p.H);
  for (const Group& g : groups)
    if (g.slot >= 0) dots.down_bridge(g, act.data(), down_bridge.data());
  seam.at(SINKTRAP_SEAM(DOWN_BRIDGE), down_bridge);
  for (const Group& g : groups)
    if (g.slot >= 0) dots.down_delta(g, down_bridge.data(), down_delta.data());
  seam.at(SINKTRAP_SEAM(DOWN_DELTA), down_delta);

  std::vector<std::byte> stored(static_cast<std::size_t>(p.T * p.H * element_bytes(p.type)));
  for (std::int64_t t = 0; t < p.T; ++t)
    for (std::int64_t h = 0; h < p.H; ++h) {
      float out = seam.at(SINKTRAP_SEAM(BASE_OUT), sum_in_order(&expert_out[t * p.n * p.H + h], p.n, p.H));
      if (p.token_slot[t] >= 0) out = out + sum_in_order(&down_delta[t * p.outer * p.H + h], p.outer, p.H);
      store_element(p.type, stored.data(), t * p.H + h, out);
    }
  return stored;
}

}  // namespace sinktrap::reference
