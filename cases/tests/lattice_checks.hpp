// Random shapes of lattice cases, and what has to hold for each.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "cases/random.hpp"
#include "cases/tests/shard_of.hpp"
#include "reference/certificate.hpp"

namespace sinktrap {

// Log-uniform in lo..hi: small extents, where special cases are, as often as large ones.
inline std::int64_t log_uniform(Random& random, std::int64_t lo, std::int64_t hi) {
  const double v = std::exp(std::log(lo) + random.unit() * (std::log(hi + 1) - std::log(lo)));
  return std::clamp(static_cast<std::int64_t>(v), lo, hi);
}

inline ForwardCase random_case(std::uint64_t seed, std::int64_t largest_H = 256,
                               std::int64_t largest_F = 96) {
  Random random(seed, 1);
  ForwardCase c;
  LayerCase& l = c.layer;
  l.d = {.n = log_uniform(random, 1, 16),
         .H = log_uniform(random, 1, largest_H),
         .F = log_uniform(random, 1, largest_F),
         .R = log_uniform(random, 1, 64),
         .S = random.between(1, 8)};
  l.layout = random.chance(1, 2) && l.d.n > 1 ? ExpertLayout::per_expert : ExpertLayout::shared;
  l.w13 = random.chance(1, 2) ? SINKTRAP_W13_INTERLEAVED : SINKTRAP_W13_CONTIGUOUS;
  constexpr Element kTypes[] = {Element::bf16, Element::bf16, Element::f16, Element::f32};
  l.type = kTypes[random.below(4)];
  l.gammas = random.chance(1, 4) ? Element::f32 : l.type;
  for (std::int64_t s = 0; s < l.d.S; ++s)
    l.ranks.push_back(random.chance(7, 10) ? random.between(0, static_cast<std::int32_t>(l.d.R)) : l.d.R);
  l.seed = seed;
  const std::int64_t T = random.chance(1, 50) ? 0 : log_uniform(random, 1, 64);
  for (std::int64_t t = 0; t < T; ++t)
    c.slots.push_back(random.between(-1, static_cast<std::int32_t>(l.d.S) - 1));
  for (std::int64_t tp : {8, 4, 2, 1})
    if (l.d.F % tp == 0 && random.chance(1, 2)) c.tp = std::max(c.tp, tp);
  return c;
}

inline std::string describe(const ForwardCase& c) {
  const LayerCase& l = c.layer;
  std::string s = "seed " + std::to_string(l.seed) + " T " + std::to_string(c.T()) + " n " +
                  std::to_string(l.d.n) + " H " + std::to_string(l.d.H) + " F " + std::to_string(l.d.F) +
                  " R " + std::to_string(l.d.R) + " S " + std::to_string(l.d.S) + " tp " +
                  std::to_string(c.tp) + " " + std::string(element_name(l.type)) +
                  (l.layout == ExpertLayout::shared ? " shared" : " per_expert") + " ranks";
  for (std::int64_t r : l.ranks) s += " " + std::to_string(r);
  return s;
}

// Every token of a slot with a rank has an output that the base model would not give, and none has only
// zeros.
inline void expect_not_vacuous(const ForwardCase& c, const ForwardInputs& in, const reference::Stages& with) {
  ForwardInputs base = in;
  for (std::int64_t t = 0; t < c.T(); ++t) base.token_slot.set(t, -1);
  const reference::Stages without = reference::forward_f64(problem_of(base), false);
  const auto H = static_cast<std::size_t>(in.d.H);
  for (std::size_t t = 0; t < c.slots.size(); ++t) {
    const auto row = [&](const reference::Stages& s) { return std::span(s.out).subspan(t * H, H); };
    EXPECT_TRUE(std::any_of(row(with).begin(), row(with).end(), [](double v) { return v != 0.0; }))
        << "token " << t;
    if (c.slots[t] >= 0 && c.layer.ranks[static_cast<std::size_t>(c.slots[t])] > 0) {
      EXPECT_FALSE(std::ranges::equal(row(with), row(without))) << "token " << t;
    }
  }
}

inline void expect_exact(const ForwardCase& c, Random& random) {
  SCOPED_TRACE(describe(c));
  const ForwardInputs in = make_inputs(c);
  const reference::Problem p = problem_of(in);
  const reference::Stages stages = reference::forward_f64(p);
  const reference::Certificate certificate = reference::certify(p, stages);
  ASSERT_TRUE(certificate.exact) << certificate.why;
  const std::uint32_t seams = static_cast<std::uint32_t>(random.next()) & SINKTRAP_ALL_SEAMS;
  const std::vector<std::byte> out = reference::forward_ordered(p, seams);
  for (std::size_t i = 0; i < stages.out.size(); ++i)
    ASSERT_EQ(load_element(in.type, out.data(), static_cast<std::int64_t>(i)),
              round_to(in.type, stages.out[i]))
        << "seams " << seams << " element " << i;
  expect_not_vacuous(c, in, stages);
}

inline void expect_exact_shards(const ForwardCase& c) {
  SCOPED_TRACE(describe(c));
  const ForwardInputs in = make_inputs(c);
  const reference::Stages whole = reference::forward_f64(problem_of(in), false);
  std::vector<double> sum(whole.out.size());
  for (std::int64_t p = 0; p < c.tp; ++p) {
    const ForwardInputs shard = shard_of(in, p, c.tp);
    const reference::Stages stages = reference::forward_f64(problem_of(shard));
    const reference::Certificate certificate = reference::certify(problem_of(shard), stages);
    ASSERT_TRUE(certificate.exact) << "shard " << p << ": " << certificate.why;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += stages.out[i];
  }
  ASSERT_EQ(sum, whole.out);
}

}  // namespace sinktrap
