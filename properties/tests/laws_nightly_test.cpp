// No law fails for an honest implementation over 50,000 generated cases, in shards that ctest can run side by
// side.
#include <gtest/gtest.h>

#include <tuple>

#include "mutants/mutants.hpp"
#include "properties/generators.hpp"
#include "properties/law.hpp"

namespace sinktrap {
namespace {

constexpr std::int64_t kCases = 50000, kShards = 5;  // a shard takes minutes on the CPU executor

// Cases first..last of one stream: the laws in turn, one case each; sizes run through 0..100 in strides of a
// prime.
void expect_conforming(const Implementation& implementation, std::int64_t first, std::int64_t last) {
  const auto count = static_cast<std::int64_t>(laws().size());
  std::int64_t judged = 0, passed = 0;
  for (std::int64_t k = first; k < last; ++k) {
    const Law& law = laws()[static_cast<std::size_t>(k % count)];
    if (!implementation.can(law.needs)) continue;
    const Case c = generate_case(law.generator, 0x5eed0000 + static_cast<std::uint64_t>(k),
                                 static_cast<int>(k / count * 37 % 101));
    const Judgement j = judge_case(law, c, implementation);
    ASSERT_FALSE(is_bad(j.status)) << law.id << "\n" << print_case(c) << "\n" << j.reason;
    if (j.status == Status::skipped && j.reason.find("has no capability") != std::string::npos) continue;
    ++judged;
    passed += j.status == Status::passed;
  }
  // Most laws and storage types are every implementation's, and most cases can see something.
  EXPECT_GT(judged, (last - first) / 2);
  EXPECT_GT(passed, judged * 8 / 10);
  testing::Test::RecordProperty("judged", static_cast<int>(judged));
  testing::Test::RecordProperty("passed", static_cast<int>(passed));
}

using ShardOf = std::tuple<std::string, std::int64_t>;
class Honest : public testing::TestWithParam<ShardOf> {};

TEST_P(Honest, NoLawFailsOver50000Cases) {
  const auto& [name, shard] = GetParam();
  const auto opened = Implementation::open(name);
  if (const auto* error = std::get_if<std::string>(&opened)) GTEST_SKIP() << *error;
  expect_conforming(*std::get<std::shared_ptr<const Implementation>>(opened), shard * kCases / kShards,
                    (shard + 1) * kCases / kShards);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, Honest,
                         testing::Combine(testing::Values("reference", "reference:ordered", "simt:ordered",
                                                          "simt:tiled", "simt:mma", "simt:decode"),
                                          testing::Range(std::int64_t{0}, kShards)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           for (char& c : name)
                             if (c == ':') c = '_';
                           return name + "_" + std::to_string(std::get<1>(info.param) + 1) + "of" +
                                  std::to_string(kShards);
                         });

TEST(Honest, NoLawFailsForTheUnmutatedPlainCOver50000Cases) {
  expect_conforming(*select_mutant(kUnmutated), 0, kCases);
}

// What contract and proof allow has to survive as well as the honest code does.
TEST(Honest, NoLawFailsForAnEquivalentMutant) {
  for (std::size_t i = 0; i < mutants().size(); ++i)
    if (mutants()[i].equivalent()) expect_conforming(*select_mutant(static_cast<int>(i)), 0, kCases / 10);
}

}  // namespace
}  // namespace sinktrap
