// The cases of legal_zoo_test.cpp, 110,000 of them, in parts that ctest can run side by side.
#include "zoo/tests/drive.hpp"

namespace sinktrap::zoo::test {
namespace {

class LegalZooNightly : public testing::TestWithParam<int> {};

TEST_P(LegalZooNightly, NoneIsCalledWrong) {
  const auto part = static_cast<std::uint64_t>(GetParam());
  const struct {
    Generator family;
    std::uint64_t first;
    int cases;
  } families[] = {{Generator::forward_lattice, 10'000'000, 5000},
                  {Generator::forward_dense, 50'000'000, 4500},
                  {Generator::forward_sweep, 90'000'000, 500},
                  {Generator::forward_hostile, 130'000'000, 1000}};
  for (const auto& f : families) {
    const Driven d = drive(f.family, f.first + part * 1'000'000, f.cases, 2);
    report(d);
    EXPECT_EQ(d.cases, f.cases) << "it stops at the first that is called wrong";
    EXPECT_EQ(d.evaluations, 2 * f.cases);
    EXPECT_GT(d.elements, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, LegalZooNightly, testing::Range(0, 10));

}  // namespace
}  // namespace sinktrap::zoo::test
