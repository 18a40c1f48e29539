// What the certificate admits, and each of the reasons for which it refuses.
#include "reference/certificate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "reference/magnitude.hpp"

namespace sinktrap::reference {
namespace {

// One token, slot or base, one expert, worked by hand: x = (1, 1), gate = 64 + 16, up = 1 + 2, gamma = 1/2,
// act = 120, out = (120 + 2 * 120, -120 + 0).
struct Exact {
  std::vector<double> x = {1, 1}, gammas = {0.5}, w13 = {32, 32, 1, 0}, w2 = {1, -1};
  std::vector<double> gate_up_a = {1, 0, 0, 2}, gate_up_b = {16, 1}, down_a = {1}, down_b = {2, 0};
  std::int32_t slot = 0;
  Element type = Element::bf16, gamma_type = Element::bf16;
  std::int64_t F = 1;
  std::vector<std::vector<std::byte>> stored;

  const void* store(Element t, const std::vector<double>& v) {
    stored.emplace_back(v.size() * static_cast<std::size_t>(element_bytes(t)));
    for (std::size_t i = 0; i < v.size(); ++i)
      store_element(t, stored.back().data(), static_cast<std::int64_t>(i), v[i]);
    return stored.back().data();
  }
  Problem problem() {
    stored.clear();
    Problem p;
    p.T = 1;
    p.n = 1;
    p.H = 2;
    p.F = F;
    p.S = 1;
    p.R = 1;
    p.outer = 1;
    p.type = type;
    p.gamma_type = gamma_type;
    p.x = store(type, x);
    p.gammas = store(gamma_type, gammas);
    p.w13 = store(type, w13);
    p.w2 = store(type, w2);
    p.pool = {store(type, gate_up_a), store(type, gate_up_b), store(type, down_a), store(type, down_b)};
    p.token_slot = &slot;
    return p;
  }
  std::vector<double> out() {
    const Problem p = problem();
    return forward_f64(p, false).out;
  }
  std::string why() {
    const Problem p = problem();
    const Certificate c = certify(p, forward_f64(p));
    EXPECT_EQ(c.exact, c.why.empty());
    return c.why;
  }
};

void expect_refused(Exact c, const std::string& reason) {
  const std::string why = c.why();
  EXPECT_NE(why.find(reason), std::string::npos) << "expected '" << reason << "', found '" << why << "'";
}

TEST(Certificate, AdmitsTheExactCase) {
  for (Element type : {Element::bf16, Element::f16, Element::f32}) {
    Exact c;
    c.type = c.gamma_type = type;
    EXPECT_EQ(c.why(), "");
    EXPECT_EQ(c.out(), (std::vector<double>{360, -120}));
    c.slot = -1;
    EXPECT_EQ(c.why(), "");
    EXPECT_EQ(c.out(), (std::vector<double>{32, -32}));
    c.gamma_type = Element::f32;
    EXPECT_EQ(c.why(), "");
  }
}

TEST(Certificate, AdmitsNoTokens) {
  Exact c;
  Problem p = c.problem();
  p.T = 0;
  p.x = p.gammas = nullptr;
  p.token_slot = nullptr;
  EXPECT_TRUE(certify(p, forward_f64(p)).exact);
}

TEST(Certificate, AdmitsNoPool) {
  Exact c;
  c.slot = -1;
  Problem p = c.problem();
  p.pool = {};
  p.S = p.R = 0;
  EXPECT_EQ(certify(p, forward_f64(p)).why, "");
}

TEST(Certificate, NegativeGateIsExactWhereSiluVanishes) {
  Exact c;
  c.gate_up_b = {-208, 1};  // gate 64 - 208 = -144
  EXPECT_EQ(c.why(), "");
  EXPECT_EQ(c.out(), (std::vector<double>{0, 0}));
  c.gate_up_b = {-191, 1};  // -127
  expect_refused(c, "gate between -128 and 40");
}

TEST(Certificate, RefusesAGateInTheCurvedPart) {
  Exact c;
  c.w13 = {15, 15, 1, 0};
  c.gate_up_b = {0, 1};  // gate 30
  expect_refused(c, "gate between -128 and 40");
  c.w13 = {20, 20, 1, 0};  // gate 40
  EXPECT_EQ(c.why(), "");
}

TEST(Certificate, RefusesAWeightBelowTheGranule) {
  Exact c;
  c.w13 = {32, 32, 1, 0x1p-18};  // up = 1 + 2^-18 + 2: the sum spans 2^20 granules, but not 8 bits
  expect_refused(c, "seam base_y");
  // Hidden by a coordinate that cancels: the seam is narrow again, the sum is still too wide.
  c = Exact{};
  c.type = c.gamma_type = Element::f32;
  c.x = {1, 1};
  c.w13 = {32 + 0x1p-18, 32 - 0x1p-18, 1, 0};  // 64 * 2^18 = 2^24 granules
  expect_refused(c, "sum y");
  c.w13 = {32 + 0x1p-16, 32 - 0x1p-16, 1, 0};  // (64 + 16) 2^16 < 2^23
  EXPECT_EQ(c.why(), "");
}

TEST(Certificate, BaseAndAdapterAreOneSum) {
  Exact c;
  c.type = c.gamma_type = Element::f32;
  // 2^23 granules of base alone are admitted, one more term of the adapter is not.
  c.w13 = {32 + 0x1p-17, 32 - 0x1p-17, 1, 0};
  c.slot = -1;
  EXPECT_EQ(c.why(), "");
  c.slot = 0;
  expect_refused(c, "sum y");
}

TEST(Certificate, RefusesAGammaThatIsNotDyadic) {
  Exact c;
  c.gammas = {0.3};  // 77 * 2^-8 in bf16, and act = 240 * 0.3 needs 11 bits
  expect_refused(c, "seam act");
  c.gamma_type = Element::f32;  // 24 bits by itself
  expect_refused(c, "more than 24 significant bits");
}

TEST(Certificate, RefusesAnOutputOfNineBits) {
  Exact c;
  c.w2 = {3, -1};  // 120 * 3 + 240 = 600 = 75 * 8 still fits
  EXPECT_EQ(c.why(), "");
  c.w2 = {33, -1};  // expert_out = 120 * 33 = 495 * 8
  expect_refused(c, "seam expert_out");
  c = Exact{};
  c.down_b = {33, 0};
  expect_refused(c, "seam down_delta");
  c = Exact{};
  c.w2 = {17, -1};    // 15 * 17 * 8 = 255 * 8 fits
  c.down_b = {2, 0};  // with 30 * 8 in addition it is 285 * 8
  expect_refused(c, "seam out");
  c.type = c.gamma_type = Element::f16;
  EXPECT_EQ(c.why(), "");
}

TEST(Certificate, RefusesHugeMagnitudes) {
  Exact c;
  c.w2 = {0x1p127, -1};  // 120 * 2^127 leaves bf16
  expect_refused(c, "seam expert_out");
  c = Exact{};
  c.type = c.gamma_type = Element::f16;
  c.w2 = {1024, -1};  // 122880 leaves f16
  expect_refused(c, "seam expert_out");
  c = Exact{};
  c.type = c.gamma_type = Element::f32;
  c.w13 = {0x1p127, -0x1p127, 1, 0};  // cancels to 0, plus 64 from the adapter
  c.gate_up_b = {64, 1};
  expect_refused(c, "sum y");
}

TEST(Certificate, RefusesWhatMayBeFlushed) {
  Exact c;
  c.w2 = {0x1p-127, -1};  // a subnormal input
  expect_refused(c, "input w2 element 0");
  c = Exact{};
  c.gammas = {0x1p-12};   // act = 15 * 2^-8
  c.w2 = {0x1p-124, -1};  // expert_out = 15 * 2^-132
  expect_refused(c, "seam expert_out");
  c.w2 = {0x1p-120, -1};  // 15 * 2^-128 is normal, the partial sums of its granules need not be
  expect_refused(c, "sum out");
}

TEST(Certificate, RefusesNaNAndInfinityWhereTheyAreReached) {
  for (double v : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Exact c;
    c.down_b[1] = v;
    expect_refused(c, "input down_lora_b element 1");
    c.slot = -1;  // nobody uses the slot
    EXPECT_EQ(c.why(), "");
    c = Exact{};
    c.x[0] = v;
    expect_refused(c, "input x element 0");
    c = Exact{};
    c.gammas[0] = v;
    expect_refused(c, "input gammas element 0");
  }
}

TEST(Certificate, RefusesAProductWithGammaThatUnderflows) {
  Exact c;
  c.type = Element::f32;
  c.gamma_type = Element::f32;
  c.w13 = {32, 32, 0x1p-100, 0};
  c.gate_up_b = {0, 0};
  c.gammas = {0x1p-30};  // up * gamma = 2^-130, while silu * up * gamma = 2^-124
  expect_refused(c, "leaves the normal range of f32");
}

// The bound that makes the certificate fast must not decide by itself: it overestimates this sum, which is
// 2^23 granules exactly.
TEST(Certificate, DecidesBySumsWhereTheBoundIsTooCoarse) {
  Exact c;
  c.type = c.gamma_type = Element::f32;
  c.slot = -1;
  c.x = {1, 63};
  c.w13 = {8388608.0 - 63 * 65537, 65537, 1, 0};
  EXPECT_EQ(c.why(), "");
  c.w13[0] += 2;
  expect_refused(c, "sum y");
}

// Whole lanes, a rest, and both; values of 1 to 4 significant bits and zeros.
TEST(Magnitude, IsThatOfTheElementsAtEveryWidth) {
  for (std::int64_t count = 0; count < 40; ++count) {
    std::vector<float> v;
    double sum = 0, squares = 0, largest = 0;
    int granule = kNoGranule;
    for (std::int64_t i = 0; i < count; ++i) {
      const int significand = static_cast<int>(i * 7 % 16), exponent = static_cast<int>(i * 5 % 23) - 11;
      v.push_back(static_cast<float>(std::ldexp(i % 2 == 0 ? significand : -significand, exponent)));
      sum += std::fabs(v.back());
      squares += static_cast<double>(v.back()) * v.back();
      largest = std::max<double>(largest, std::fabs(v.back()));
      for (int bit = 0; bit < 4; ++bit)
        if (significand >> bit & 1) granule = std::min(granule, exponent + bit);
    }
    const Magnitude m = magnitude_of(v.data(), count);
    EXPECT_EQ(m.granule, granule) << count;
    EXPECT_EQ(m.sum, sum) << count;  // multiples of 2^-11 below 2^42: exact in any order
    EXPECT_EQ(m.largest, largest) << count;
    EXPECT_DOUBLE_EQ(m.norm, std::sqrt(squares)) << count;
  }
}

}  // namespace
}  // namespace sinktrap::reference
