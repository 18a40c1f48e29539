// Pools past 2^31 elements (corpus/large.cases): honest implementations pass, and every mutant whose offsets
// are too narrow is refused. Sparse memory keeps the cases small; where even that is short, the tests are
// skipped with the program's reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace sinktrap::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kLarge[] = {"int32_offsets_of_gate_up_a", "int32_offsets_of_gate_up_b",
                                  "int32_offsets_of_w1_delta",  "uint32_offsets_of_w1_delta",
                                  "uint32_bytes_of_gate_up_a",  "int32_bytes_of_down_a",
                                  "int32_bytes_of_down_b"};

TEST(Large, EveryMutantOfTheKindIsTestedHere) {
  EXPECT_EQ(mutants_of("large"), std::vector<std::string>(std::begin(kLarge), std::end(kLarge)));
}

class OffsetsTooNarrow : public ::testing::TestWithParam<const char*> {};

// Beside it stands the honest code, which has to pass the same cases.
TEST_P(OffsetsTooNarrow, AreRefused) {
  const Ended e = program(std::string("mutants --json - --jobs 1 --cases 1 ") + GetParam());
  const Json matrix = Json::parse(e.out, nullptr, false);
  ASSERT_TRUE(matrix.is_object()) << e.err;
  ASSERT_EQ(matrix["mutants"].size(), 2u);
  const Json &honest = matrix["mutants"][0], &mutant = matrix["mutants"][1];
  EXPECT_EQ(honest["outcome"], "passed") << honest;
  EXPECT_EQ(honest["cases"], 3) << "one generated, two large";
  if (mutant["outcome"] == "not judged") GTEST_SKIP() << mutant["reason"];
  EXPECT_EQ(mutant["outcome"], "killed") << mutant;
  EXPECT_EQ(e.code, 0);
}

INSTANTIATE_TEST_SUITE_P(Kind, OffsetsTooNarrow, ::testing::ValuesIn(kLarge),
                         [](const auto& info) { return std::string(info.param); });

class LargeCases : public ::testing::TestWithParam<const char*> {};

TEST_P(LargeCases, PassOnALibrary) {
  const Ended e = program("check --timeout 280 --law lattice-is-exact --file '" SINKTRAP_SOURCE_DIR
                          "/corpus/large.cases' --impl '" +
                          std::string(GetParam()) + "'");
  EXPECT_EQ(e.code, 0) << e.out << e.err;
  if (e.out.find("GiB are free") != std::string::npos) GTEST_SKIP() << e.out;
  std::size_t passed = 0;
  for (std::size_t at = 0; (at = e.out.find("PASSED", at)) != std::string::npos; ++at) ++passed;
  EXPECT_EQ(passed, 2u) << e.out;
}

INSTANTIATE_TEST_SUITE_P(Honest, LargeCases, ::testing::Values(SINKTRAP_OPENBLAS),
                         [](const auto&) { return "openblas"; });

}  // namespace
}  // namespace sinktrap::testing
