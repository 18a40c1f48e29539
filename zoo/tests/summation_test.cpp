// The sums of the zoo on numbers worked by hand: each differs from the others exactly where it should.
#include <gtest/gtest.h>

#include <cmath>

#include "zoo/zoo.hpp"

namespace sinktrap::zoo {
namespace {

using Kind = Summation::Kind;
using Order = Summation::Order;

float sum_of(Summation how, const std::vector<float>& values, float start = 0, bool flush = false) {
  Terms t;
  const float one = 1.0f;
  for (const float& v : values) t.add(&one, &v, 1);
  Random random(1);
  return sum(how, start, t, flush, random, Element::bf16);
}

TEST(Summation, SmallIntegersAreExactInEveryLegalWay) {
  for (Summation how : legal_summations())
    for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
      how.order = order;
      EXPECT_EQ(sum_of(how, {1, -7, 100, 3, 5, -2, 9, 11, 250, -40, 6, 8, 1, 1, 1, 4, 2}, 3), 356)
          << static_cast<int>(how.kind) << " width " << how.width;
      EXPECT_EQ(sum_of(how, {}, 5), 5);
    }
}

// 2^24 + 1 + 1: the order decides whether the ones are lost.
TEST(Summation, OrdersRoundDifferently) {
  EXPECT_EQ(sum_of({Kind::rounded, Order::ascending}, {0x1p24f, 1, 1}), 0x1p24f);
  EXPECT_EQ(sum_of({Kind::rounded, Order::descending}, {0x1p24f, 1, 1}), 0x1p24f + 2);
  EXPECT_EQ(sum_of({Kind::wide}, {0x1p24f, 1, 1}), 0x1p24f + 2);
  EXPECT_EQ(sum_of({Kind::blocked, Order::ascending, 2}, {0x1p24f, 1, 1, 1}), 0x1p24f + 2);
  EXPECT_EQ(sum_of({Kind::pairwise}, {0x1p24f, 1, 1, 1}), 0x1p24f + 2);
  EXPECT_EQ(sum_of({Kind::split, Order::ascending, 2}, {1, 1, 1, 0x1p24f}), 0x1p24f + 2);
  EXPECT_EQ(sum_of({Kind::rounded}, {1, 1, 1, 0x1p24f}), 0x1p24f + 4);
  EXPECT_EQ(sum_of({Kind::lanes, Order::ascending, 2}, {0x1p24f, 1, 1, 1}), 0x1p24f + 2);
}

// A product of 48 bits is exact under fma and in a tensor core of one product, rounded otherwise.
TEST(Summation, FusedProductsKeepTheirLowBits) {
  const float a = 1.0f + 0x1p-23f, square = a * a;
  Terms t;
  t.add(&a, &a, 1);
  Random random(1);
  EXPECT_EQ(sum({Kind::fused}, -square, t, false, random, Element::bf16), 0x1p-46f);
  EXPECT_EQ(sum({Kind::rounded}, -square, t, false, random, Element::bf16), 0.0f);
}

// A tensor core drops what lies below the 24th bit of the largest addend, toward zero; plain sums round.
TEST(Summation, TensorCoreTruncatesAlignedAddends) {
  const Summation core{Kind::tensor_core, Order::ascending, 4, 24};
  EXPECT_EQ(sum_of(core, {0x1p23f, 0.75f, 0.75f, 0.75f}), 0x1p23f);
  EXPECT_EQ(sum_of(core, {-0x1p23f, -0.75f, -0.75f, -0.75f}), -0x1p23f);
  EXPECT_EQ(sum_of({Kind::tensor_core, Order::ascending, 4, 25}, {0x1p23f, 0.75f, 0.75f, 0.75f}),
            0x1p23f + 1);
  EXPECT_EQ(sum_of({Kind::truncating}, {0x1p23f, 0.75f}), 0x1p23f);
  EXPECT_EQ(sum_of({Kind::rounded}, {0x1p23f, 0.75f}), 0x1p23f + 1);
}

TEST(Summation, StorageAccumulationLosesWhatEightBitsCannotHold) {
  EXPECT_EQ(sum_of({Kind::storage}, {256, 1, 1, 1}), 256);
  EXPECT_EQ(stored(Element::bf16, 257), 256);
  EXPECT_EQ(stored(Element::f16, 2049), 2048);
  EXPECT_EQ(stored(Element::f32, 257), 257);
}

TEST(Summation, FlushMakesSubnormalsZero) {
  EXPECT_EQ(sum_of({Kind::rounded}, {0x1p-130f}, 0, true), 0.0f);
  EXPECT_EQ(sum_of({Kind::rounded}, {0x1p-130f}, 0, false), 0x1p-130f);
}

// Every silu lies in its class (CONTRACT.md section 5): (|z| + 6) 2^-23 of the value, or |z| 2^-22. The
// clamped range below -87 is left out: there a result of 0 is legal.
TEST(ZooSilu, LiesInItsClass) {
  for (int i = -87 * 64; i <= 100 * 64; ++i) {
    const float z = static_cast<float>(i) / 64 + 1.0f / 1024;
    const double exact = z / (1 + std::exp(-static_cast<double>(z)));
    for (int k = 0; k < kSilus; ++k) {
      const bool absolute = static_cast<Silu>(k) == Silu::tanh;
      const double allowed =
          absolute ? std::fabs(z) * 0x1p-22 : (std::fabs(z) + 6) * 0x1p-23 * std::fabs(exact);
      ASSERT_LE(std::fabs(silu(z, static_cast<Silu>(k)) - exact), allowed) << "z " << z << " silu " << k;
    }
  }
}

}  // namespace
}  // namespace sinktrap::zoo
