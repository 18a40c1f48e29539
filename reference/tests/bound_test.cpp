// The worst-case bound: no legal implementation leaves it, a wrong one does.
#include "reference/bound.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contract/verdict.hpp"
#include "random_problem.hpp"
#include "zoo/zoo.hpp"

namespace sinktrap::reference {
namespace {

using test::Dimensions;
using test::Random;
using test::RandomProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> ordered(const RandomProblem& r, std::uint32_t seams) {
  const std::vector<std::byte> stored = forward_ordered(r.problem, seams);
  std::vector<double> values(static_cast<std::size_t>(r.problem.T * r.problem.H));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load_element(r.problem.type, stored.data(), static_cast<std::int64_t>(i));
  return values;
}

// The largest share of the bound that an output uses: at most 1 for a legal one. Unjudged elements are left
// out.
double share(const std::vector<double>& out, const Stages& exact, const Bound& bound) {
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (bound.error[i] == kInfinity) continue;
    const double error = std::fabs(out[i] - exact.out[i]);
    if (!(error <= 0)) worst = std::max(worst, std::isnan(error) ? kInfinity : error / bound.error[i]);
  }
  return worst;
}

std::uint32_t random_seams(Random& random) {
  switch (random() % 3) {
    case 0:
      return 0;
    case 1:
      return SINKTRAP_ALL_SEAMS;
    default:
      return static_cast<std::uint32_t>(random()) & SINKTRAP_ALL_SEAMS;
  }
}

zoo::Layer layer_of(const RandomProblem& r) {
  const Problem& p = r.problem;
  zoo::Layer l;
  l.T = p.T, l.n = p.n, l.H = p.H, l.F = p.F, l.R = p.R, l.outer = p.outer;
  l.w13_layout = p.w13_layout, l.type = p.type;
  l.x = zoo::decoded(r.x), l.gammas = zoo::decoded(r.gammas);
  l.w13 = zoo::decoded(r.w13), l.w2 = zoo::decoded(r.w2);
  for (std::size_t b = 0; b < l.pool.size(); ++b) l.pool[b] = zoo::decoded(r.pool[b]);
  l.token_slot.assign(p.token_slot, p.token_slot + p.T);
  return l;
}

// The output of a random legal implementation that rounds these seams.
std::vector<double> legal(const RandomProblem& r, Random& random, std::uint32_t seams,
                          std::string* text = nullptr) {
  sinktrap::Random choices(random());
  zoo::Choice c = zoo::random_choice(choices, false);
  c.seams = seams;
  if (text != nullptr) *text = zoo::choice_text(c);
  return zoo::forward(layer_of(r), c);
}

TEST(Bound, NoLegalVariantLeavesIt) {
  Random random(2026);
  double worst = 0;
  std::int64_t judged = 0, elements = 0;
  for (int i = 0; i < 300; ++i) {
    const Dimensions d = test::random_dimensions(random, i % 10 == 0 ? 64 : 20);
    const RandomProblem r(random, d);
    const std::uint32_t seams = random_seams(random);
    const Stages exact = forward_f64(r.problem);
    const Bound declared = worst_case_bound(r.problem, exact, seams, SINKTRAP_SILU_RELATIVE);
    ASSERT_EQ(declared.error.size(), exact.out.size());
    for (double e : declared.error) judged += e != kInfinity;
    elements += r.problem.T * r.problem.H;
    const auto what = [&] {
      return testing::Message() << "case " << i << " type " << element_name(d.type) << " T" << d.T << " n"
                                << d.n << " H" << d.H << " F" << d.F << " R" << d.R << " outer " << d.outer
                                << " seams " << seams_to_text(seams);
    };
    const double of_ordered = share(ordered(r, seams), exact, declared);
    ASSERT_LE(of_ordered, 1.0) << what();
    worst = std::max(worst, of_ordered);
    for (int k = 0; k < 4; ++k) {
      std::string text;
      const double used = share(legal(r, random, seams, &text), exact, declared);
      ASSERT_LE(used, 1.0) << what() << " " << text;
      worst = std::max(worst, used);
    }
  }
  EXPECT_EQ(judged, elements);  // nothing here comes near the end of a range
  EXPECT_GT(elements, 5'000);
  RecordProperty("largest_share", std::to_string(worst));
  EXPECT_GT(worst, 0.2);  // else the bound has grown useless
}

// One feature whose base and delta nearly cancel, in gate, up and out: what a seam or a sum rounded away
// stands next to a tiny result, so each part of the bound is needed.
TEST(Bound, HoldsWhereSumsCancel) {
  Random random(31);
  double worst = 0;
  for (int i = 0; i < 3000; ++i) {
    Dimensions d{.T = 1, .n = 1, .H = i % 3 == 0 ? 64 : 1, .F = 1, .S = 1, .R = 1};
    d.type = i % 2 == 0 ? Element::bf16 : Element::f32;
    d.gammas = d.type;
    RandomProblem r(random, d);
    r.token_slot.set(0, 0);
    // Everything positive, so that sums drift one way when additions truncate.
    for (Tensor* t : {&r.x, &r.gammas, &r.w13, &r.w2, &r.pool[0], &r.pool[2]})
      for (std::int64_t k = 0; k < t->size(); ++k) t->set(k, std::fabs(t->at(k)) + 0.25);
    const Stages base = forward_f64(r.problem);
    // gate: mostly cancelling; up: always.
    if (random() % 4 != 0) r.pool[1].set(0, -base.base_y[0] / base.bridge[0]);
    r.pool[1].set(1, -base.base_y[1] / base.bridge[1]);
    if (random() % 2 == 0) {
      const Stages stages = forward_f64(r.problem);
      for (std::int64_t h = 0; h < d.H && stages.down_bridge[0] != 0; ++h)
        r.pool[3].set(h, -stages.base_out[static_cast<std::size_t>(h)] / stages.down_bridge[0]);
    }
    const Stages exact = forward_f64(r.problem);
    const std::uint32_t seams =
        random() % 3 == 0 ? random_seams(random) : 1u << random() % SINKTRAP_SEAM_COUNT;
    const Bound bound = worst_case_bound(r.problem, exact, seams, SINKTRAP_SILU_RELATIVE);
    const double used =
        std::max(share(ordered(r, seams), exact, bound), share(legal(r, random, seams), exact, bound));
    ASSERT_LE(used, 1.0) << "case " << i << " " << element_name(d.type) << " seams " << seams_to_text(seams);
    worst = std::max(worst, used);
  }
  RecordProperty("largest_share", std::to_string(worst));
}

// Truncated additions drift one way: up to an ulp of the running sum for each of H terms, seen where the sum
// ends near 0.
TEST(Bound, HoldsWhereATruncatedSumDrifts) {
  Random random(17);
  Dimensions d{.T = 1, .n = 1, .H = 64, .F = 1, .S = 1, .R = 1};
  d.type = d.gammas = Element::f32;
  double largest_drift = 0;
  for (int i = 0; i < 100; ++i) {
    RandomProblem r(random, d);
    r.token_slot.set(0, -1);
    for (std::int64_t k = 0; k < 32; ++k) {
      const double up = test::uniform(random, 0.5) + 1;
      r.x.set(k, 1), r.x.set(32 + k, 1);
      r.w13.set(k, 1), r.w13.set(32 + k, 1);                          // gate 64: silu is exact
      r.w13.set(64 + k, up), r.w13.set(96 + k, -up * (1 + 0x1p-10));  // up about -32 2^-10
    }
    r.gammas.set(0, 1);
    for (std::int64_t h = 0; h < d.H; ++h) r.w2.set(h, 1);
    const Stages exact = forward_f64(r.problem);
    zoo::Choice truncating;
    for (zoo::Summation& sum : truncating.sums) sum.kind = zoo::Summation::Kind::truncating;
    const std::vector<double> out = zoo::forward(layer_of(r), truncating);
    const Bound bound = worst_case_bound(r.problem, exact, 0, SINKTRAP_SILU_RELATIVE);
    ASSERT_LE(share(out, exact, bound), 1.0);
    largest_drift = std::max(largest_drift, std::fabs(out[0] - exact.out[0]) / 64);
  }
  // Far more than the few roundings of the largest partial sum, 32, that a bound without the factor K would
  // have.
  EXPECT_GT(largest_drift, 8 * 32 * 0x1p-23);
}

// Sharpness: a down delta 1.25 times too large leaves the bound of its own declaration in most small cases.
TEST(Bound, AScaledDownDeltaLeavesIt) {
  Random random(77);
  int caught = 0, cases = 0;
  for (int i = 0; i < 100; ++i) {
    Dimensions d = test::random_dimensions(random, 32);
    d.type = d.gammas = Element::bf16;
    d.T = 4;
    RandomProblem r(random, d);
    for (std::int64_t t = 0; t < d.T; ++t) r.token_slot.set(t, 0);
    const Stages exact = forward_f64(r.problem);
    const std::uint32_t seams = SINKTRAP_SEAM(Y) | SINKTRAP_SEAM(ACT) | SINKTRAP_SEAM(BASE_OUT);
    const Bound bound = worst_case_bound(r.problem, exact, seams, SINKTRAP_SILU_RELATIVE);
    ASSERT_LE(share(zoo::forward(layer_of(r), zoo::plain_choice(seams)), exact, bound), 1.0);
    std::vector<double> wrong = exact.out;
    for (std::size_t k = 0; k < wrong.size(); ++k)
      wrong[k] = round_to(d.type, exact.base_out[k] + 1.25 * (exact.out[k] - exact.base_out[k]));
    ++cases;
    caught += share(wrong, exact, bound) > 1.0;
  }
  RecordProperty("caught", caught);
  EXPECT_GE(caught, cases * 9 / 10);
}

TEST(Bound, GrowsWithSeamsAndSiluClass) {
  Random random(5);
  for (int i = 0; i < 50; ++i) {
    const RandomProblem r(random, test::random_dimensions(random, 16));
    const Stages exact = forward_f64(r.problem);
    const auto smaller = static_cast<std::uint32_t>(random()) & SINKTRAP_ALL_SEAMS;
    const auto larger = smaller | (static_cast<std::uint32_t>(random()) & SINKTRAP_ALL_SEAMS);
    const Bound a = worst_case_bound(r.problem, exact, smaller, SINKTRAP_SILU_RELATIVE);
    const Bound b = worst_case_bound(r.problem, exact, larger, SINKTRAP_SILU_RELATIVE);
    for (std::size_t k = 0; k < a.error.size(); ++k) {
      ASSERT_LE(a.error[k], b.error[k]);
      ASSERT_GT(a.error[k], 0);
    }
  }
}

// tanh-type silu: z/2 (1 + tanh(z/2)) loses relative accuracy for negative gates, and the absolute class
// allows that.
TEST(Bound, AbsoluteSiluIsWiderForNegativeGates) {
  Random random(6);
  Dimensions d{.T = 1, .n = 1, .H = 1, .F = 1, .S = 1, .R = 1};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  r.token_slot.set(0, -1);
  r.x.set(0, 1), r.gammas.set(0, 1), r.w13.set(0, -12), r.w13.set(1, 1), r.w2.set(0, 1);
  const Stages exact = forward_f64(r.problem);
  const double tanh_type = -6.0f * (1.0f + std::tanh(-6.0f));
  const std::vector<double> out = {tanh_type};
  EXPECT_GT(share(out, exact, worst_case_bound(r.problem, exact, 0, SINKTRAP_SILU_RELATIVE)), 1.0);
  EXPECT_LE(share(out, exact, worst_case_bound(r.problem, exact, 0, SINKTRAP_SILU_ABSOLUTE)), 1.0);
}

// Where the range of a seam, an accumulator or the storage may be left, an element is not judged.
TEST(Bound, LeavesOverflowUnjudged) {
  Random random(8);
  Dimensions d{.T = 1, .n = 1, .H = 2, .F = 1, .S = 1, .R = 1};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  r.token_slot.set(0, -1);
  const auto error = [&](double x, double w2, std::uint32_t seams) {
    r.x.set(0, x), r.x.set(1, -x), r.gammas.set(0, 1);
    for (int i = 0; i < 4; ++i) r.w13.set(i, i == 1 ? 0.5 : 1.0);  // gate x/2, up 0
    r.w2.set(0, w2), r.w2.set(1, 0);
    return worst_case_bound(r.problem, forward_f64(r.problem), seams, SINKTRAP_SILU_RELATIVE).error;
  };
  EXPECT_LT(error(100, 1, 0)[0], 1);
  EXPECT_EQ(error(0x1.8p127, 1, 0)[0], kInfinity);  // 1 * x - 1 * x: partial sums overflow in some order
  EXPECT_EQ(error(NAN, 1, 0)[0], kInfinity);
  EXPECT_EQ(error(100, HUGE_VAL, 0)[0], kInfinity);
  // An f16 seam holds 65504 at most; without it the value is judged: 90000 * 300 * 2^-14 = 1648, of which the
  // class of silu allows 90006 * 2^-23, that is 17.7.
  d.type = d.gammas = Element::f16;
  RandomProblem h(random, d);
  h.token_slot.set(0, -1);
  h.x.set(0, 300), h.x.set(1, 0), h.gammas.set(0, 1);
  h.w13.set(0, 300), h.w13.set(1, 0), h.w13.set(2, 1), h.w13.set(3, 0);  // gate 90000, up 300
  h.w2.set(0, 0x1p-14), h.w2.set(1, 0);
  const Stages exact = forward_f64(h.problem);
  EXPECT_EQ(worst_case_bound(h.problem, exact, SINKTRAP_SEAM(Y), SINKTRAP_SILU_RELATIVE).error[0], kInfinity);
  EXPECT_LT(worst_case_bound(h.problem, exact, 0, SINKTRAP_SILU_RELATIVE).error[0], 20.0);
}

// Subnormal inputs may be read as zero: the bound has room for all that is lost with them.
TEST(Bound, CoversFlushedSubnormals) {
  Random random(9);
  Dimensions d{.T = 1, .n = 1, .H = 1, .F = 1, .S = 1, .R = 1};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  r.token_slot.set(0, -1);
  r.x.set(0, 0x1p-130), r.w13.set(0, 0x1p127), r.w13.set(1, 0x1p127), r.gammas.set(0, 0x1p100),
      r.w2.set(0, 1);
  const Stages exact = forward_f64(r.problem);
  ASSERT_GT(std::fabs(exact.out[0]), 1);
  const Bound bound = worst_case_bound(r.problem, exact, 0, SINKTRAP_SILU_RELATIVE);
  EXPECT_LE(share({0.0}, exact, bound), 1.0);
}

}  // namespace
}  // namespace sinktrap::reference
