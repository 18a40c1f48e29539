// Every mutant as a plug-in under test: the line-up has to name it, and localising has to find where it sits
// when the line-up is switched off. Pairs of mutants: both are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "mutants/mutants.hpp"
#include "program.hpp"

namespace sinktrap::testing {
namespace {

using Json = nlohmann::json;

// Mutants of one kind that are under test here. A library of another interface version is refused before any
// case: there is nothing to compare.
std::vector<Mutant> of_kind(const std::string& kind) {
  std::vector<Mutant> found;
  for (const Mutant& m : mutants())
    if (m.kind == kind && m.name != "wrong_version") found.push_back(m);
  return found;
}

// The line-up of the library with these faults ("a" or "a+b").
Json line_up_of(const std::string& faults, const std::string& mode) {
  setenv("SINKTRAP_FAULT", faults.c_str(), 1);
  // A hang costs the time limit for every case.
  const std::string few = faults == "hang_in_forward" ? " --cases 100 --timeout 1" : " --cases 4000";
  const Ended e = program("run --json - --line-up " + mode + " --impl '" + plain_c("any") + "'" + few);
  unsetenv("SINKTRAP_FAULT");
  const Json report = Json::parse(e.out, nullptr, false);
  if (!report.is_object() || !report["implementations"][0].contains("lineup")) return Json::object();
  return report["implementations"][0]["lineup"];
}

// True when no suspect matches more cases than this one does.
bool is_named(const Json& lineup, const std::string& name) {
  const Json suspects = lineup.value("suspects", Json::array());
  return std::any_of(suspects.begin(), suspects.end(), [&](const Json& s) {
    return s["mutant"] == name && s["matched"] == suspects[0]["matched"];
  });
}

class LineUpOfEveryMutant : public ::testing::TestWithParam<const char*> {};

TEST_P(LineUpOfEveryMutant, NamesItInNineOfTenAndPlacesTheRest) {
  const auto kind = of_kind(GetParam());
  ASSERT_FALSE(kind.empty());
  std::string missed;
  std::size_t named = 0;
  for (const Mutant& m : kind) {
    const std::string name(m.name);
    const Json lineup = line_up_of(name, "all");
    if (is_named(lineup, name)) {
      ++named;
      continue;
    }
    missed += " " + name;
    // Who is not named has to be placed, unless others were found to explain every case as well.
    if (const std::string stage = lineup.value("stage", ""); !stage.empty()) {
      EXPECT_EQ(stage, row_of(m.stage.value()).id) << name;
    }
  }
  // Nine of ten; in a kind of fewer than ten one may be missed.
  EXPECT_GE(named, kind.size() - std::max<std::size_t>(1, kind.size() / 10)) << "not named:" << missed;
  RecordProperty("named", static_cast<int>(named));
}

TEST_P(LineUpOfEveryMutant, WithoutItTheStageIsFoundInNineOfTen) {
  const auto kind = of_kind(GetParam());
  ASSERT_FALSE(kind.empty());
  std::string missed;
  std::size_t found = 0;
  for (const Mutant& m : kind) {
    const Json lineup = line_up_of(std::string(m.name), "where");
    const std::string stage = lineup.value("stage", "");
    if (stage == row_of(m.stage.value()).id)
      ++found;
    else
      missed += " " + std::string(m.name) + " (" + stage + ")";
  }
  EXPECT_GE(found, kind.size() - std::max<std::size_t>(1, kind.size() / 10)) << "elsewhere:" << missed;
  RecordProperty("found", static_cast<int>(found));
}

INSTANTIATE_TEST_SUITE_P(Kinds, LineUpOfEveryMutant,
                         ::testing::Values("layout", "gamma", "activation", "tails", "precision", "scaling",
                                           "sharding", "routing", "state", "argument", "memory", "validation",
                                           "loading"),
                         [](const auto& info) { return std::string(info.param); });

// Two faults at once, of different kinds and in different places.
TEST(LineUpOfPairs, NamesBothInFourOfFive) {
  const char* const pairs[] = {"expert_zero_for_all+no_gamma",
                               "halves_swapped_in_b+last_feature_lost",
                               "up_half_read_at_r+gamma_twice",
                               "last_hidden_lost+down_delta_doubled",
                               "w2_of_next_expert+last_rank_column_lost",
                               "stale_slot+unload_keeps_b",
                               "scaling_twice+shard_collapses_halves",
                               "two_r_wraps+odd_rows_accepted",
                               "minus_one_is_slot_zero+last_down_rank_lost",
                               "sigmoid_only+delta_times_1_25"};
  std::string missed;
  std::size_t named = 0;
  for (const std::string pair : pairs) {
    const std::size_t plus = pair.find('+');
    const Json lineup = line_up_of(pair, "all");
    const bool yes =
        is_named(lineup, pair) || is_named(lineup, pair.substr(plus + 1) + "+" + pair.substr(0, plus));
    named += yes;
    if (!yes) missed += " " + pair;
  }
  EXPECT_GE(named, std::size(pairs) * 4 / 5) << "not named:" << missed;
  RecordProperty("named", static_cast<int>(named));
}

}  // namespace
}  // namespace sinktrap::testing
