// No legal implementation is ever called wrong: 7,000 generated cases, four legal implementations each.
#include "zoo/tests/drive.hpp"

namespace sinktrap::zoo::test {
namespace {

TEST(LegalZoo, NoneDiffersOnACertifiedCase) {
  const Driven d = drive(Generator::forward_lattice, 1'000'000, 2500, 4);
  report(d);
  EXPECT_EQ(d.cases, 2500);
  EXPECT_EQ(d.unjudged, 0);
}

TEST(LegalZoo, NoneLeavesABound) {
  const Driven d = drive(Generator::forward_dense, 2'000'000, 2500, 4);
  report(d);
  EXPECT_EQ(d.cases, 2500);
  EXPECT_EQ(d.unjudged, 0);
  EXPECT_GT(d.bound_use, 0.5);  // a bound that nobody comes near would say nothing
}

TEST(LegalZoo, NoneLeavesItsTwoValuesOnASweep) {
  const Driven d = drive(Generator::forward_sweep, 4'000'000, 1000, 4);
  report(d);
  EXPECT_EQ(d.unjudged, 0);
  EXPECT_EQ(d.bound_use, 0);  // judged by values, never by the bound that stands in where a case is no sweep
}

// NaN, infinity, subnormal and huge values, flushed or kept.
TEST(LegalZoo, NoneSendsAHostileValueAstray) {
  const Driven d = drive(Generator::forward_hostile, 3'000'000, 1000, 4);
  report(d);
  EXPECT_EQ(d.cases, 1000);
  EXPECT_LT(d.unjudged, d.elements / 2);
}

}  // namespace
}  // namespace sinktrap::zoo::test
