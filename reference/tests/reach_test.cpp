// NaN and infinity, element by element, on layers small enough to follow by hand.
#include "reference/reach.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random_problem.hpp"

namespace sinktrap::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using test::Dimensions;
using test::Random;
using test::RandomProblem;
constexpr auto A = SINKTRAP_BUFFER_GATE_UP_LORA_A, B = SINKTRAP_BUFFER_GATE_UP_LORA_B,
               C = SINKTRAP_BUFFER_DOWN_LORA_A, D = SINKTRAP_BUFFER_DOWN_LORA_B;

// Three tokens: base, slot 0, slot 1. Everything is 1, so no factor is zero; gates are far from underflow.
struct Ones {
  Random random{1};
  RandomProblem r{random, {.T = 3, .n = 2, .H = 2, .F = 2, .S = 3, .R = 2, .outer = 1}};
  Ones() {
    for (Tensor* t : {&r.x, &r.gammas, &r.w13, &r.w2, &r.pool[0], &r.pool[1], &r.pool[2], &r.pool[3]})
      for (std::int64_t i = 0; i < t->size(); ++i) t->set(i, 1);
    for (std::int64_t t = 0; t < 3; ++t) r.token_slot.set(t, static_cast<double>(t - 1));
  }
  // One letter for each output, a row for each token: . clean, ? anything, i not finite, n NaN.
  std::string map() {
    std::string text;
    const std::vector<Reach> reach = reach_of(r.problem, forward_f64(r.problem));
    for (std::size_t i = 0; i < reach.size(); ++i) {
      if (i > 0 && i % 2 == 0) text += ' ';
      text += ".?in"[static_cast<int>(reach[i])];
    }
    return text;
  }
};

TEST(Reach, NothingComesOfFiniteInputs) {
  Ones c;
  EXPECT_EQ(c.map(), ".. .. ..");
}

TEST(Reach, ATokensOwnInputsReachItsRowOnly) {
  for (const double v : {double{NAN}, kInf}) {
    Ones c;
    c.r.gammas.set(2, v);  // token 1, expert 0
    EXPECT_EQ(c.map(), std::isnan(v) ? ".. nn .." : ".. ii ..");
  }
  Ones c;
  c.r.x.set(4, NAN);
  EXPECT_EQ(c.map(), ".. .. nn");
}

TEST(Reach, AnInfiniteGateMayVanishInSilu) {
  Ones c;
  c.r.x.set(2, kInf);  // gate and up of token 1 are infinite; the sign of the gate is not followed
  EXPECT_EQ(c.map(), ".. ?? ..");
}

TEST(Reach, ASlotReachesTheTokensThatUseItAndAnUnusedOneNobody) {
  for (const auto buffer : {A, B, C}) {
    Ones c;
    Tensor& t = c.r.pool[static_cast<std::size_t>(buffer)];
    const std::int64_t per_slot = t.size() / 3;
    t.set(1 * per_slot, NAN);
    EXPECT_EQ(c.map(), ".. .. nn") << buffer;
    t.set(1 * per_slot, 1);
    t.set(2 * per_slot, NAN);
    EXPECT_EQ(c.map(), ".. .. ..") << buffer;
  }
  Ones c;
  c.r.pool[D].set(0, NAN);  // slot 0, hidden column 0
  EXPECT_EQ(c.map(), ".. n. ..");
  c.r.pool[D].set(0, kInf);
  EXPECT_EQ(c.map(), ".. i. ..");
}

TEST(Reach, AWeightOfTheDownProjectionReachesItsColumn) {
  Ones c;
  c.r.w2.set(2, NAN);  // expert 0, hidden column 1
  EXPECT_EQ(c.map(), ".n .n .n");
}

TEST(Reach, AZeroFactorMayBeSkipped) {
  Ones c;
  c.r.x.set(4, 0);      // token 2, hidden column 0
  c.r.w13.set(0, NAN);  // meets that column
  EXPECT_EQ(c.map(), "nn nn ??");
}

// A rank tail: rows of A beyond the adapter's rank hold NaN, the columns of B there are zero.
TEST(Reach, ARankTailMayBeSkipped) {
  Ones c;
  for (std::int64_t j = 0; j < 8; ++j) c.r.pool[B].set(j * 2 + 1, 0);  // slot 0, last rank column
  c.r.pool[A].set(2, NAN);                                             // slot 0, gate row 1
  EXPECT_EQ(c.map(), ".. ?? ..");
}

}  // namespace
}  // namespace sinktrap::reference
