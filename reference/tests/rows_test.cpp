// Decoding and rounding against contract/element: the reference's fast versions may not differ from it
// anywhere.
#include "reference/rows.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <stdexcept>

namespace sinktrap::reference {
namespace {

bool same_value(float a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Rows, DecodesEveryValue) {
  for (Element type : {Element::bf16, Element::f16}) {
    std::vector<std::uint16_t> stored(1 << 16);
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::uint16_t>(i);
    const std::vector<float> values = decode(type, stored.data(), 1 << 16);
    for (std::int64_t i = 0; i < 1 << 16; ++i)
      ASSERT_TRUE(same_value(values[static_cast<std::size_t>(i)], load_element(type, stored.data(), i))) << i;
  }
  const float f32[] = {1.5f, -0.0f, 0x1p-149f};
  float out[2];
  decode(Element::f32, f32, 1, 2, out);
  EXPECT_TRUE(same_value(out[0], -0.0) && same_value(out[1], 0x1p-149));
  EXPECT_TRUE(decode(Element::f32, nullptr, 0).empty());
}

// Every stored value, every midpoint between two, and the floats next to both: all places where a rounding
// can turn.
TEST(Rows, RoundsLikeTheContractAtEveryTurn) {
  for (Element type : {Element::bf16, Element::f16}) {
    for (std::uint32_t i = 0; i < 1u << 16; ++i) {
      const auto stored = static_cast<std::uint16_t>(i);
      const auto next = static_cast<std::uint16_t>(i + 1);
      const double value = load_element(type, &stored, 0);
      const auto middle = static_cast<float>((value + load_element(type, &next, 0)) / 2);
      for (float centre : {static_cast<float>(value), middle})
        for (int step : {-2, -1, 0, 1, 2}) {
          const float f = float_of(std::bit_cast<std::uint32_t>(centre) + static_cast<std::uint32_t>(step));
          ASSERT_TRUE(same_value(round_storage(type, f), round_to(type, f)))
              << element_name(type) << " " << f;
        }
    }
    // The overflow threshold: the largest value plus half a unit.
    const FloatFormat format = float_format(type);
    const auto limit =
        static_cast<float>(std::ldexp(2.0 - std::ldexp(1.0, -format.significant_bits), format.max_exponent));
    for (float f : {limit, std::nextafter(limit, 0.0f), std::nextafter(limit, HUGE_VALF), -limit})
      EXPECT_TRUE(same_value(round_storage(type, f), round_to(type, f))) << f;
  }
}

TEST(Rows, RoundsLikeTheContractOnASweep) {
  // A stride that is prime to 2^32 visits every pattern of the low bits.
  std::uint32_t bits = 0;
  for (int i = 0; i < 1'000'000; ++i, bits += 2'654'435'761u) {
    const float f = float_of(bits);
    for (Element type : {Element::bf16, Element::f16, Element::f32})
      ASSERT_TRUE(same_value(round_storage(type, f), round_to(type, f))) << element_name(type) << " " << bits;
  }
}

TEST(Rows, GroupsTokensBySlot) {
  const std::int32_t slots[] = {2, -1, 0, 2, -1};
  Problem p;
  p.T = 5;
  p.token_slot = slots;
  const std::vector<Group> groups = groups_by_slot(p);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].slot, -1);
  EXPECT_EQ(groups[0].tokens, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(groups[1].slot, 0);
  EXPECT_EQ(groups[2].tokens, (std::vector<std::int64_t>{0, 3}));
}

// w13 of a small problem in f32, with values that round in every sum.
struct Plain {
  std::vector<float> x, w13;
  Problem p;
  std::vector<std::int64_t> tokens;

  Plain(std::int64_t T, std::int64_t H, std::int64_t F) {
    p.T = T, p.n = 1, p.H = H, p.F = F, p.type = Element::f32;
    const auto fill = [](std::vector<float>& v, std::int64_t count, std::uint32_t step) {
      for (std::int64_t i = 0; i < count; ++i)
        v.push_back(static_cast<float>(static_cast<std::uint32_t>(i + 1) * step) * 0x1p-32f - 0.5f);
    };
    fill(x, T * H, 2'654'435'761u);
    fill(w13, 2 * F * H, 2'246'822'519u);
    p.x = x.data();
    p.w13 = w13.data();
    for (std::int64_t t = 0; t < T; ++t) tokens.push_back(t);
  }
  // The chain that rows.hpp promises, one sum at a time.
  std::vector<float> chains() const {
    std::vector<float> out;
    for (std::int64_t t = 0; t < p.T; ++t)
      for (std::int64_t i = 0; i < 2 * p.F; ++i) {
        const float* row =
            &w13[static_cast<std::size_t>(p.w13_row(static_cast<int>(i / p.F), i % p.F) * p.H)];
        float sum = 0;
        for (std::int64_t k = 0; k < p.H; ++k)
          sum = std::fma(row[k], x[static_cast<std::size_t>(t * p.H + k)], sum);
        out.push_back(sum);
      }
    return out;
  }
  std::vector<float> products() const {
    std::vector<float> out(static_cast<std::size_t>(p.T * 2 * p.F));
    Products<float>(p).base_y(tokens, x.data(), out.data());
    return out;
  }
};

// Blocks of rows and of tokens, whole and partial ones.
TEST(Rows, ProductsAreOneChainForEachElementWhateverTheShape) {
  for (std::int64_t T : {1, 3, 4, 9})
    for (std::int64_t F : {1, 4, 7}) {
      const Plain plain(T, 33, F);
      EXPECT_EQ(plain.products(), plain.chains()) << T << " " << F;
    }
}

TEST(Rows, ProductsOnAllProcessorsAreTheSameChains) {
  const Plain plain(9, 2048, 516);
  ASSERT_GE(plain.p.T * plain.p.H * 2 * plain.p.F, kParallelFrom);
  EXPECT_EQ(plain.products(), plain.chains());
}

TEST(Rows, PartsCoverTheWholeOnceAndTheirExceptionsArrive) {
  for (std::int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    in_parallel(count, [&](std::int64_t first, std::int64_t last) {
      for (; first < last; ++first) ++seen[static_cast<std::size_t>(first)];
    });
    for (const auto& times : seen) EXPECT_EQ(times, 1);
  }
  const auto last_part_fails = [](std::int64_t, std::int64_t last) {
    if (last == 1000) throw std::runtime_error("the last part");
  };
  EXPECT_THROW(in_parallel(1000, last_part_fails), std::runtime_error);
}

}  // namespace
}  // namespace sinktrap::reference
