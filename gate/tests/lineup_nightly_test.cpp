// Every mutant as a plug-in under test: the line-up has to name it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.hpp"

namespace sinktrap::testing {
namespace {

using Json = nlohmann::json;

// A library of another interface version is refused before any case: there is nothing to compare.
std::vector<std::string> names_of(const std::string& kind) {
  std::vector<std::string> names = mutants_of(kind);
  names.erase(std::remove(names.begin(), names.end(), "wrong_version"), names.end());
  return names;
}

// True when no suspect matches more cases than the mutant itself does.
bool is_named(const std::string& name) {
  setenv("SINKTRAP_FAULT", name.c_str(), 1);
  // A hang costs the time limit for every case.
  const std::string few = name == "hang_in_forward" ? " --cases 100 --timeout 1" : " --cases 4000";
  const Ended e = program("run --json - --impl '" + plain_c("any") + "'" + few);
  unsetenv("SINKTRAP_FAULT");
  const Json report = Json::parse(e.out, nullptr, false);
  if (!report.is_object() || !report["implementations"][0].contains("lineup")) return false;
  const Json& suspects = report["implementations"][0]["lineup"]["suspects"];
  return std::any_of(suspects.begin(), suspects.end(), [&](const Json& s) {
    return s["mutant"] == name && s["matched"] == suspects[0]["matched"];
  });
}

class LineUpOfEveryMutant : public ::testing::TestWithParam<const char*> {};

TEST_P(LineUpOfEveryMutant, NamesItInNineOfTen) {
  const auto names = names_of(GetParam());
  ASSERT_FALSE(names.empty());
  std::string missed;
  std::size_t named = 0;
  for (const std::string& name : names) {
    const bool yes = is_named(name);
    named += yes;
    if (!yes) missed += " " + name;
  }
  // Nine of ten; in a kind of fewer than ten one may be missed.
  EXPECT_GE(named, names.size() - std::max<std::size_t>(1, names.size() / 10)) << "not named:" << missed;
  RecordProperty("named", static_cast<int>(named));
}

INSTANTIATE_TEST_SUITE_P(Kinds, LineUpOfEveryMutant,
                         ::testing::Values("layout", "gamma", "activation", "tails", "precision", "scaling",
                                           "sharding", "routing", "state", "argument", "memory", "validation",
                                           "loading"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace sinktrap::testing
