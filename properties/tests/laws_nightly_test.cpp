// No law fails for an honest implementation over 50,000 generated cases.
#include <gtest/gtest.h>

#include "mutants/mutants.hpp"
#include "properties/generators.hpp"
#include "properties/law.hpp"

namespace sinktrap {
namespace {

constexpr std::int64_t kCases = 50000;

// The laws in turn, one case each; sizes run through 0..100 in strides of a prime.
void expect_conforming(const Implementation& implementation, std::int64_t cases = kCases) {
  const auto count = static_cast<std::int64_t>(laws().size());
  std::int64_t passed = 0;
  for (std::int64_t k = 0; k < cases; ++k) {
    const Law& law = laws()[static_cast<std::size_t>(k % count)];
    if (!implementation.can(law.needs)) continue;
    const Case c = generate_case(law.generator, 0x5eed0000 + static_cast<std::uint64_t>(k),
                                 static_cast<int>(k / count * 37 % 101));
    const Judgement j = judge_case(law, c, implementation);
    passed += j.status == Status::passed;
    ASSERT_FALSE(is_bad(j.status)) << law.id << "\n" << print_case(c) << "\n" << j.reason;
  }
  EXPECT_GT(passed, cases * 8 / 10);
}

class Honest : public testing::TestWithParam<std::string> {};

TEST_P(Honest, NoLawFailsOver50000Cases) {
  const auto opened = Implementation::open(GetParam());
  expect_conforming(*std::get<std::shared_ptr<const Implementation>>(opened));
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, Honest, testing::Values("reference", "reference:ordered", "simt:ordered"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == ':') c = '_';
                           return name;
                         });

TEST(Honest, NoLawFailsForTheUnmutatedPlainCOver50000Cases) { expect_conforming(*select_mutant(kUnmutated)); }

// What contract and proof allow has to survive as well as the honest code does.
TEST(Honest, NoLawFailsForAnEquivalentMutant) {
  for (std::size_t i = 0; i < mutants().size(); ++i)
    if (mutants()[i].equivalent()) expect_conforming(*select_mutant(static_cast<int>(i)), kCases / 10);
}

}  // namespace
}  // namespace sinktrap
