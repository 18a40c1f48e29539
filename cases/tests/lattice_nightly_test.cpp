// The random shapes of lattice_test.cpp, more of them.
#include <gtest/gtest.h>

#include "cases/tests/lattice_checks.hpp"

namespace sinktrap {
namespace {

TEST(LatticeNightly, RandomShapesAreExactAndNotVacuous) {
  Random random(4);
  for (std::uint64_t seed = 100000; seed < 120000 && !::testing::Test::HasFatalFailure(); ++seed)
    expect_exact(random_case(seed), random);
}

// Wide and deep layers, where sums of magnitudes come near the limit.
TEST(LatticeNightly, LargeShapesAreExact) {
  Random random(5);
  int judged = 0;
  for (std::uint64_t seed = 200000; seed < 200100 && !::testing::Test::HasFatalFailure(); ++seed) {
    ForwardCase c = random_case(seed, 8192, 2048);
    if (c.slots.size() > 6) c.slots.resize(6);
    if (c.layer.d.n * c.layer.d.F * c.layer.d.H > (std::int64_t{1} << 25)) continue;
    expect_exact(c, random);
    ++judged;
  }
  EXPECT_GT(judged, 20) << "of 100 cases: the others have more than 2^25 weights";
}

}  // namespace
}  // namespace sinktrap
