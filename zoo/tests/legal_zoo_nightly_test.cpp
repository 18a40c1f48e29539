// The cases of legal_zoo_test.cpp, 110,000 of them, in parts that ctest can run side by side.
#include "zoo/tests/drive.hpp"

namespace sinktrap::zoo::test {
namespace {

class LegalZooNightly : public testing::TestWithParam<int> {};

TEST_P(LegalZooNightly, NoneIsCalledWrong) {
  const auto part = static_cast<std::uint64_t>(GetParam());
  report(drive(Generator::forward_lattice, 10'000'000 + part * 1'000'000, 5000, 2));
  report(drive(Generator::forward_dense, 50'000'000 + part * 1'000'000, 4500, 2));
  report(drive(Generator::forward_sweep, 90'000'000 + part * 1'000'000, 500, 2));
  report(drive(Generator::forward_hostile, 130'000'000 + part * 1'000'000, 1000, 2));
}

INSTANTIATE_TEST_SUITE_P(Parts, LegalZooNightly, testing::Range(0, 10));

}  // namespace
}  // namespace sinktrap::zoo::test
