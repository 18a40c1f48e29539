// The forward passes: worked by hand, against each other, and with hostile values.
#include "reference/forward.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "contract/ordered.h"
#include "contract/verdict.hpp"
#include "random_problem.hpp"

namespace sinktrap::reference {
namespace {

using test::Dimensions;
using test::Random;
using test::RandomProblem;

void set_all(Tensor& t, std::initializer_list<double> values) {
  ASSERT_EQ(t.size(), static_cast<std::int64_t>(values.size()));
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, values.begin()[i]);
}

std::vector<double> stored_values(const std::vector<std::byte>& bytes, Element type) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(element_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load_element(type, bytes.data(), static_cast<std::int64_t>(i));
  return values;
}

// n = 2, H = 2, F = 2, R = 1. x = (3, 1). All gates are at least 40, so silu(z) = z and everything is an
// integer.
//   w13[0]: gate rows (20,0), (16,2) -> 60, 50; up rows (1,0), (0,2) -> 3, 2.   w13[1]: gate 15*3-5 = 40,
//   14*3+0 = 42; up (1,1), (-1,0) -> 4, -3. A: gate row (1,-1) -> 2; up row (0,1) -> 1.   B[0]: gate (1),(2)
//   -> 2, 4; up (1),(0) -> 1, 0. B[1]: gate (3),(0) -> 6, 0; up (-1),(2) -> -1, 2. y[0]: gate 62, 54; up
//   4, 2.   y[1]: gate 46, 42; up 3, -1.   gammas (1, 0.5): act[0] = 62*4, 54*2 = 248, 108.   act[1] =
//   46*3/2, -42/2 = 69, -21. w2[0] = [[1,0],[0,1]], w2[1] = [[1,1],[2,0]] -> expert_out (248,108), (48,138);
//   base_out (296, 246).
TEST(Forward, ByHandSharedOuter) {
  Random random(1);
  Dimensions d{.T = 2, .n = 2, .H = 2, .F = 2, .S = 1, .R = 1, .outer = 1};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  set_all(r.x, {3, 1, 3, 1});
  set_all(r.gammas, {1, 0.5, 1, 0.5});
  set_all(r.token_slot, {0, -1});
  // interleaved: gate 0, up 0, gate 1, up 1
  set_all(r.w13, {20, 0, 1, 0, 16, 2, 0, 2, 15, -5, 1, 1, 14, 0, -1, 0});
  set_all(r.w2, {1, 0, 0, 1, 1, 1, 2, 0});
  set_all(r.pool[0], {1, -1, 0, 1});
  set_all(r.pool[1], {1, 2, 1, 0, 3, 0, -1, 2});
  // down A: e = 0 (1, 0), e = 1 (2, 1) -> 248 + 138 - 21 = 365; down B (1), (-2) -> 365, -730.
  set_all(r.pool[2], {1, 0, 2, 1});
  set_all(r.pool[3], {1, -2});
  const Stages s = forward_f64(r.problem);
  EXPECT_EQ(s.base_y, (std::vector<double>{60, 50, 3, 2, 40, 42, 4, -3, 60, 50, 3, 2, 40, 42, 4, -3}));
  EXPECT_EQ(s.bridge, (std::vector<double>{2, 1, 0, 0}));
  EXPECT_EQ(s.delta, (std::vector<double>{2, 4, 1, 0, 6, 0, -1, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  // Token 1 has no adapter: act 180, 100 and 40*4/2, -42*3/2 = 80, -63; out 180 + 17, 100 + 160.
  EXPECT_EQ(s.act, (std::vector<double>{248, 108, 69, -21, 180, 100, 80, -63}));
  EXPECT_EQ(s.expert_out, (std::vector<double>{248, 108, 48, 138, 180, 100, 17, 160}));
  EXPECT_EQ(s.base_out, (std::vector<double>{296, 246, 197, 260}));
  EXPECT_EQ(s.down_bridge, (std::vector<double>{365, 0}));
  EXPECT_EQ(s.down_delta, (std::vector<double>{365, -730, 0, 0}));
  const std::vector<double> out = {661, -484, 197, 260};
  EXPECT_EQ(s.out, out);
  EXPECT_EQ(stored_values(forward_ordered(r.problem, SINKTRAP_ALL_SEAMS), d.type), out);

  const Stages only_out = forward_f64(r.problem, false);
  EXPECT_EQ(only_out.out, out);
  EXPECT_TRUE(only_out.act.empty());

  // The same layer with w13 as halves.
  set_all(r.w13, {20, 0, 16, 2, 1, 0, 0, 2, 15, -5, 14, 0, 1, 1, -1, 0});
  r.problem.w13_layout = SINKTRAP_W13_CONTIGUOUS;
  EXPECT_EQ(forward_f64(r.problem).out, out);
  EXPECT_EQ(stored_values(forward_ordered(r.problem, 0), d.type), out);
}

// Per-expert outer factors: expert 1 has its own A and down B.
TEST(Forward, ByHandPerExpert) {
  Random random(1);
  Dimensions d{.T = 1, .n = 2, .H = 1, .F = 1, .S = 2, .R = 2, .outer = 2};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  for (Tensor& t : r.pool)  // slot 0 is not used and may hold anything
    for (std::int64_t i = 0; i < t.size() / 2; ++i) t.set(i, NAN);
  set_all(r.x, {1});
  set_all(r.gammas, {1, 2});
  set_all(r.token_slot, {1});
  set_all(r.w13, {50, 2, 60, 3});
  set_all(r.w2, {1, 10});
  const auto slot_1 = [](Tensor& t, std::initializer_list<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      t.set(t.size() / 2 + static_cast<std::int64_t>(i), values.begin()[i]);
  };
  slot_1(r.pool[0], {1, 2, 3, 4, 5, 6, 7, 8});    // e0: gate 1 2, up 3 4; e1: gate 5 6, up 7 8
  slot_1(r.pool[1], {1, 10, 1, -1, 2, 0, 0, 1});  // e0: gate 21, up -1; e1: gate 10, up 8
  slot_1(r.pool[2], {1, 2, -1, 3});               // act e0 71 * 1 = 71, e1 70 * 11 * 2 = 1540
  slot_1(r.pool[3], {1, 1, 2, 0});                // e0 (71, 142) -> 213; e1 (-1540, 4620) -> -3080
  const std::vector<double> out = {71 + 15400 + 213 - 3080};
  EXPECT_EQ(forward_f64(r.problem).out, out);
  EXPECT_EQ(stored_values(forward_ordered(r.problem, 0), d.type), out);
}

// Section 7 asks for one chain per element: seams round where they stand, and f32 sums agree with f64 within
// their error.
TEST(Forward, OrderedIsCloseToExact) {
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const Dimensions d = test::random_dimensions(random, 24);
    const RandomProblem r(random, d);
    const std::vector<double> exact = forward_f64(r.problem).out;
    const std::vector<double> ordered = stored_values(forward_ordered(r.problem, 0), d.type);
    // Weights are scaled so that outputs are of order 1 to 100; storage keeps 8 bits at least.
    const double unit = std::ldexp(1.0, -float_format(d.type).significant_bits) + 0x1p-16;
    for (std::size_t k = 0; k < exact.size(); ++k)
      ASSERT_NEAR(ordered[k], exact[k], unit * (std::fabs(exact[k]) + 1));
  }
}

TEST(Forward, EverySeamRounds) {
  Random random(11);
  Dimensions d{.T = 8, .n = 2, .H = 33, .F = 17, .S = 1, .R = 5, .outer = 1};
  RandomProblem r(random, d);
  for (std::int64_t t = 0; t < d.T; ++t) r.token_slot.set(t, 0);
  const auto plain = forward_ordered(r.problem, 0);
  for (int seam = 0; seam < SINKTRAP_SEAM_COUNT; ++seam)
    EXPECT_NE(forward_ordered(r.problem, 1u << seam), plain) << seam_name(seam);
  // Storage in f32 has nothing to round at a seam.
  d.type = d.gammas = Element::f32;
  RandomProblem wide(random, d);
  EXPECT_EQ(forward_ordered(wide.problem, SINKTRAP_ALL_SEAMS), forward_ordered(wide.problem, 0));
}

TEST(Forward, WithoutTokensOrPool) {
  Random random(3);
  RandomProblem none(random, {.T = 0});
  EXPECT_TRUE(forward_f64(none.problem).out.empty());
  EXPECT_TRUE(forward_ordered(none.problem, 0).empty());

  RandomProblem r(random, {.T = 2});
  set_all(r.token_slot, {-1, -1});
  const std::vector<double> with_pool = forward_f64(r.problem).out;
  const auto ordered_with_pool = forward_ordered(r.problem, SINKTRAP_ALL_SEAMS);
  r.problem.pool = {};
  r.problem.S = r.problem.R = 0;
  EXPECT_EQ(forward_f64(r.problem).out, with_pool);
  EXPECT_EQ(forward_ordered(r.problem, SINKTRAP_ALL_SEAMS), ordered_with_pool);
}

// Hostile values reach what section 5 leads them to, and nothing else.
TEST(Forward, NanStaysInItsRow) {
  Random random(5);
  const Dimensions d{.T = 3, .n = 2, .H = 6, .F = 4, .S = 2, .R = 2, .outer = 1};
  RandomProblem r(random, d);
  set_all(r.token_slot, {0, -1, 0});
  const std::vector<double> clean = forward_f64(r.problem).out;
  const auto clean_ordered = stored_values(forward_ordered(r.problem, 0), d.type);
  const auto expect_rows = [&](std::initializer_list<bool> poisoned, const char* what) {
    const std::vector<double> out = forward_f64(r.problem).out;
    const auto ordered = stored_values(forward_ordered(r.problem, 0), d.type);
    for (std::int64_t t = 0; t < d.T; ++t)
      for (std::int64_t h = 0; h < d.H; ++h) {
        const auto i = static_cast<std::size_t>(t * d.H + h);
        if (poisoned.begin()[t]) {
          EXPECT_TRUE(std::isnan(out[i]) && std::isnan(ordered[i])) << what << " " << t;
        } else {
          EXPECT_EQ(out[i], clean[i]) << what << " " << t;
          EXPECT_EQ(ordered[i], clean_ordered[i]) << what << " " << t;
        }
      }
  };
  for (Tensor& t : r.pool)
    for (std::int64_t i = t.size() / 2; i < t.size(); ++i) t.set(i, i % 2 ? NAN : HUGE_VAL);
  expect_rows({false, false, false}, "a slot that no token uses");

  const double kept = r.x.at(4);
  r.x.set(4, NAN);
  expect_rows({true, false, false}, "x");
  r.x.set(4, kept);

  r.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].set(0, NAN);
  expect_rows({true, false, true}, "an adapter");
}

// An adapter of rank 1 in a pool of rank 2: its zero tail takes part, and NaN * 0 is NaN.
TEST(Forward, ZeroTailTakesPart) {
  Random random(6);
  Dimensions d{.T = 1, .n = 1, .H = 2, .F = 1, .S = 1, .R = 2, .outer = 1};
  d.type = d.gammas = Element::f32;
  RandomProblem r(random, d);
  set_all(r.token_slot, {0});
  set_all(r.x, {1, 1});
  set_all(r.w13, {50, 0, 1, 0});
  set_all(r.w2, {1, 1});
  set_all(r.gammas, {1});
  set_all(r.pool[0], {0, 0, HUGE_VAL, 0, 0, 0, 0, 0});  // the second gate bridge is infinite
  set_all(r.pool[1], {0, 0, 0, 0});
  set_all(r.pool[2], {0, 0});
  set_all(r.pool[3], {0, 0, 0, 0});
  EXPECT_TRUE(std::isnan(forward_f64(r.problem).out[0]));
  EXPECT_TRUE(std::isnan(stored_values(forward_ordered(r.problem, 0), d.type)[0]));
}

TEST(OrderedExp, Edges) {
  EXPECT_TRUE(std::isnan(ordered_exp(NAN)));
  EXPECT_EQ(ordered_exp(HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(ordered_exp(-HUGE_VALF), 0.0f);
  EXPECT_EQ(ordered_exp(0.0f), 1.0f);
  EXPECT_EQ(ordered_exp(-0.0f), 1.0f);
  // 128 ln 2 = 88.7228391 lies between OVERFLOW and the float below it.
  EXPECT_TRUE(std::isfinite(ordered_exp(std::nextafter(SINKTRAP_EXP_OVERFLOW, 0.0f))));
  EXPECT_EQ(ordered_exp(SINKTRAP_EXP_OVERFLOW), HUGE_VALF);
  EXPECT_EQ(ordered_exp(std::nextafter(SINKTRAP_EXP_OVERFLOW, 100.0f)), HUGE_VALF);
  EXPECT_EQ(ordered_exp(std::nextafter(SINKTRAP_EXP_UNDERFLOW, -200.0f)), 0.0f);
  EXPECT_LE(ordered_exp(SINKTRAP_EXP_UNDERFLOW), 0x1p-149f);
  EXPECT_EQ(ordered_exp(-103.0f), 0x1p-149f);  // exp(-103) = 1.41 * 2^-149
}

// Section 7 evaluated in exact rational arithmetic with every rounding done by hand (Python's fractions). The
// first sixteen points are ones where another order of the last products, or an fma less, gives other bits.
TEST(OrderedExp, IsTheSequenceOfTheContract) {
  const struct {
    float x;
    std::uint32_t bits;
  } rows[] = {
      {6.498f, 0x4425f405u},  {-5.132f, 0x3bc17c8bu},  {0.593f, 0x3fe79ab3u},  {-3.82f, 0x3cb3a1efu},
      {10.691f, 0x472bb671u}, {10.609f, 0x471e31b1u},  {17.787f, 0x4c4a6bdeu}, {10.75f, 0x47362607u},
      {-5.138f, 0x3bc0543du}, {-19.581f, 0x31575b80u}, {13.477f, 0x492e07f7u}, {-15.036f, 0x349e6c43u},
      {12.153f, 0x4839378cu}, {-14.21f, 0x3534ee95u},  {16.21f, 0x4b27469du},  {-8.029f, 0x39aada0bu},
      {0.1f, 0x3f8d763eu},    {1.0f, 0x402df854u},     {-1.0f, 0x3ebc5ab2u},   {88.5f, 0x7f4cdcc4u},
      {-87.9f, 0x0048dccau},  {-95.1f, 0x00000dedu},   {-103.2f, 0x00000001u}};
  for (const auto& row : rows) EXPECT_EQ(std::bit_cast<std::uint32_t>(ordered_exp(row.x)), row.bits) << row.x;
}

// Accuracy over all binades: every 1021st float (a stride prime to the layout of the bits) from -104 to 89.
TEST(OrderedExp, IsAccurate) {
  double worst = 0, worst_silu = 0;
  for (const std::uint32_t sign : {0u, 0x80000000u})
    for (std::uint32_t bits = 0; bits < 0x43000000u; bits += 1021) {  // up to 128
      const float x = std::bit_cast<float>(bits | sign);
      const double exact = std::exp(static_cast<double>(x));
      if (x < SINKTRAP_EXP_OVERFLOW) {
        const int exponent = exact < 0x1p-126 ? -126 : std::ilogb(exact);
        worst = std::max(worst, std::fabs(ordered_exp(x) - exact) / std::ldexp(1.0, exponent - 23));
      }
      // silu: the relative class of section 5, where the result is normal.
      const double silu = silu_f64(x);
      if (std::fabs(silu) >= 0x1p-126 && x > -87)
        worst_silu = std::max(
            worst_silu, std::fabs(ordered_silu(x) - silu) / ((std::fabs(x) + 6) * 0x1p-23 * std::fabs(silu)));
    }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 1.05);  // units of the last place
  EXPECT_GT(worst, 0.5);   // no better than rounding once, or nothing was measured
  EXPECT_LT(worst_silu, 1.0);
}

// Neighbouring floats across every switch of k, (k + 1/2) ln 2: exp may not step back by more than its error.
TEST(OrderedExp, IsMonotoneAcrossTheEdges) {
  for (int k = -149; k < 128; ++k) {
    float x = static_cast<float>((k + 0.5) * 0.69314718055994530942);
    for (int i = 0; i < 8; ++i) x = std::nextafter(x, -200.0f);
    for (int i = 0; i < 16; ++i) {
      const float next = std::nextafter(x, 200.0f);
      const float here = ordered_exp(x), there = ordered_exp(next);
      ASSERT_GE(std::nextafter(there, HUGE_VALF), here) << "x = " << x;
      x = next;
    }
  }
}

TEST(Silu, UnderflowRule) {
  EXPECT_EQ(silu_f64(40.0), 40.0);
  EXPECT_EQ(silu_f64(-128.0), 0.0);
  EXPECT_LT(silu_f64(-100.0), 0.0);  // 100 exp(-100) is above 2^-150
  EXPECT_EQ(silu_f64(-1000.0), 0.0);
  EXPECT_TRUE(std::isnan(silu_f64(NAN)));
  EXPECT_EQ(ordered_silu(40.0f), 40.0f);
  EXPECT_EQ(ordered_silu(-128.0f), 0.0f);
}

}  // namespace
}  // namespace sinktrap::reference
