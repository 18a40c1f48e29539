// The kernels' conversions against contract/element.hpp: every f16 and bf16 value, every halfway point and
// its neighbours; and the ordered functions where their value is known.
#include "cuda_impl/number.cuh"

#include <gtest/gtest.h>

#include <cmath>

#include "contract/element.hpp"

namespace sinktrap::cuda_impl::on_simt {
namespace {

template <class E>
bool is_nan_bits(typename E::Bits bits) {
  return std::isnan(E::load(bits));
}

// Rounds through both implementations.
template <class E>
void expect_same_rounding(Element element, float value) {
  std::uint16_t expected = 0;
  store_element(element, &expected, 0, value);
  const std::uint16_t got = E::store(value);
  if (std::isnan(value))
    ASSERT_TRUE(is_nan_bits<E>(got)) << std::hex << bits_of(value) << " gave " << got;
  else
    ASSERT_EQ(got, expected) << std::hex << bits_of(value);
}

template <class E>
void check_every_value(Element element) {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const float value = E::load(bits);
    const double expected = load_element(element, &bits, 0);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << b;
      ASSERT_TRUE(is_nan_bits<E>(E::store(value))) << std::hex << b;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << std::hex << b;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << std::hex << b;
    ASSERT_EQ(E::store(value), bits) << std::hex << b;
  }
}

// f32 bit patterns around every boundary of the target: all upper halves of 16 bits with the lower bits that
// decide.
template <class E>
void check_boundaries(Element element) {
  for (std::uint32_t high = 0; high < 0x10000; ++high)
    for (std::uint32_t low :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x2001u, 0x3000u, 0x5000u, 0x7000u,
          0x7fffu, 0x8000u, 0x8001u, 0x9000u, 0xb000u, 0xd000u, 0xefffu, 0xf000u, 0xf001u, 0xffffu})
      expect_same_rounding<E>(element, float_of(high << 16 | low));
}

TEST(Number, EveryBf16Value) { check_every_value<Bf16>(Element::bf16); }
TEST(Number, EveryF16Value) { check_every_value<F16>(Element::f16); }
TEST(Number, Bf16RoundingAtEveryBoundary) { check_boundaries<Bf16>(Element::bf16); }
TEST(Number, F16RoundingAtEveryBoundary) { check_boundaries<F16>(Element::f16); }

// Halfway points between neighbouring f16 subnormals, which the patterns above do not hit one by one.
TEST(Number, F16SubnormalHalfwayPoints) {
  for (int i = 0; i < 2 * 1024 + 2; ++i) {
    const float half = static_cast<float>(i) * 0x1p-25f;
    for (float v : {half, std::nextafter(half, 1.0f), std::nextafter(half, 0.0f), -half})
      expect_same_rounding<F16>(Element::f16, v);
  }
}

TEST(Number, F32KeepsBits) {
  for (std::uint32_t bits : {0u, 0x80000000u, 1u, 0x7f800000u, 0x3f800001u}) {
    EXPECT_EQ(F32::store(F32::load(bits)), bits);
  }
}

TEST(Number, OrderedExpAtItsEdges) {
  EXPECT_EQ(ordered_exp(0.0f), 1.0f);
  EXPECT_EQ(ordered_exp(-0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(ordered_exp(NAN)));
  EXPECT_EQ(ordered_exp(INFINITY), INFINITY);
  EXPECT_EQ(ordered_exp(-INFINITY), 0.0f);
  EXPECT_EQ(ordered_exp(std::nextafter(SINKTRAP_EXP_OVERFLOW, 1000.0f)), INFINITY);
  EXPECT_EQ(ordered_exp(SINKTRAP_EXP_OVERFLOW), INFINITY);  // the first float above 128 ln 2
  EXPECT_TRUE(std::isfinite(ordered_exp(std::nextafter(SINKTRAP_EXP_OVERFLOW, 0.0f))));
  EXPECT_EQ(ordered_exp(std::nextafter(SINKTRAP_EXP_UNDERFLOW, -1000.0f)), 0.0f);
  EXPECT_EQ(ordered_exp(-103.0f), 0x1p-149f);  // 2^-148.6: a subnormal of one unit
}

TEST(Number, OrderedExpStaysWithinTwoUlps) {
  for (int i = 0; i < 4717; ++i) {  // below 88
    const float x = -87.0f + 0.0371f * static_cast<float>(i);
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(ordered_exp(x), exact, exact * 0x1p-22) << x;
  }
}

TEST(Number, OrderedSilu) {
  EXPECT_EQ(ordered_silu(0.0f), 0.0f);
  EXPECT_EQ(ordered_silu(40.0f), 40.0f);
  EXPECT_EQ(ordered_silu(-128.0f), 0.0f);
  EXPECT_TRUE(std::isnan(ordered_silu(NAN)));
  EXPECT_EQ(ordered_silu(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(ordered_silu(-INFINITY)));  // -inf / inf
  EXPECT_NEAR(ordered_silu(1.0f), 1.0 / (1.0 + std::exp(-1.0)), 1e-7);
}

}  // namespace
}  // namespace sinktrap::cuda_impl::on_simt
