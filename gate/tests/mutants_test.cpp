// The kill matrix and the line-up, end to end.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "program.hpp"

namespace sinktrap::testing {
namespace {

using Json = nlohmann::json;

// The library whose fault is named by the environment, judged on this many cases.
Json judged(const std::string& fault, int cases, const std::string& more = "") {
  setenv("SINKTRAP_FAULT", fault.c_str(), 1);
  const Ended e =
      program("run --json - --cases " + std::to_string(cases) + " --impl '" + plain_c("any") + "' " + more);
  unsetenv("SINKTRAP_FAULT");
  EXPECT_EQ(e.code, 1) << fault << e.err;
  return Json::parse(e.out, nullptr, false);
}

TEST(Mutants, EveryOneIsKilledAndWhatIsLegalSurvives) {
  const Ended e = program("mutants --json -");
  EXPECT_EQ(e.code, 0) << e.err;
  const Json matrix = Json::parse(e.out, nullptr, false);
  ASSERT_TRUE(matrix.is_object()) << e.out;
  EXPECT_GE(matrix["killed"], 60);
  EXPECT_EQ(matrix["survived"], 0);
  EXPECT_LT(matrix["median_cases"], 50);
  EXPECT_TRUE(matrix["seconds"].is_number());
  std::set<std::string> laws, kinds;
  for (const Json& m : matrix["mutants"]) {
    for (const char* field : {"mutant", "outcome", "killed_by", "cases", "milliseconds", "smallest_case"})
      EXPECT_TRUE(m.contains(field)) << m;
    if (m["mutant"] == "(unmutated)") {
      EXPECT_EQ(m["outcome"], "passed");
      continue;
    }
    if (m["kind"] == "unmutated") {
      EXPECT_EQ(m["outcome"], "passed") << m;
      continue;
    }
    kinds.insert(m["kind"]);
    EXPECT_FALSE(m["report"].get<std::string>().empty()) << m;
    EXPECT_EQ(m["outcome"], m["kind"] == "equivalent" ? "equivalent" : "killed") << m;
    if (m["outcome"] == "killed") laws.insert(m["killed_by"]);
  }
  EXPECT_GE(kinds.size(), 10u);
  if (!matrix.contains("kernel_mutants_skipped")) {
    EXPECT_TRUE(kinds.count("concurrency"));
  }
  EXPECT_GE(laws.size(), 10u);  // else one law would do all the work
}

// What refuses a fault of threads says where in the kernels it is.
TEST(Mutants, FaultsOfThreadsAreNamedWithTheirPlace) {
  const Ended e = program(
      "mutants --json - tiled:stage_unpublished mma:wait_one_short decode:flag_without_fence '(unmutated "
      "mma)'");
  const Json matrix = Json::parse(e.out, nullptr, false);
  if (e.code == 2) GTEST_SKIP() << "built without the race runtime: " << e.err;
  EXPECT_EQ(e.code, 0) << e.err << e.out;
  int killed = 0;
  for (const Json& m : matrix["mutants"]) {
    if (m["outcome"] != "killed") continue;
    ++killed;
    EXPECT_NE(m["reason"].get<std::string>().find("data race"), std::string::npos) << m;
    EXPECT_NE(m["reason"].get<std::string>().find("cuda_impl/"), std::string::npos) << m;
  }
  EXPECT_EQ(killed, 3);
}

TEST(Mutants, ASurvivorMakesTheExitCodeOne) {
  const Ended e =
      program("mutants gelu --cases 1");  // the first case is a layout: it cannot see an activation
  EXPECT_EQ(e.code, 1) << e.out;
  EXPECT_NE(e.out.find("SURVIVED"), std::string::npos) << e.out;
}

TEST(Mutants, AnUnknownNameIsOneLine) {
  const Ended e = program("mutants no_such_fault");
  EXPECT_EQ(e.code, 2);
  EXPECT_TRUE(one_line(e.err)) << e.err;
  setenv("SINKTRAP_FAULT", "no_such_fault", 1);
  EXPECT_EQ(program("run --cases 10 --impl '" + plain_c("any") + "'").code, 2);
  unsetenv("SINKTRAP_FAULT");
}

TEST(LineUp, NamesTheFaultOfAPlugIn) {
  for (const std::string fault :
       {"up_half_at_r", "slots_sorted", "down_a_not_transposed", "two_r_wraps", "unload_keeps_b"}) {
    const Json report = judged(fault, 1500);
    const Json& lineup = report["implementations"][0]["lineup"];
    ASSERT_FALSE(lineup["suspects"].empty()) << fault;
    const Json& first = lineup["suspects"][0];
    EXPECT_EQ(first["mutant"], fault) << lineup;
    EXPECT_EQ(first["matched"], lineup["compared"]);
    EXPECT_TRUE(lineup["localisation"].empty()) << "nothing is left to explain";
  }
}

TEST(LineUp, StandsInTheTextReport) {
  setenv("SINKTRAP_FAULT", "no_gamma", 1);
  const Ended e = program("run --cases 400 --impl '" + plain_c("any") + "'");
  unsetenv("SINKTRAP_FAULT");
  EXPECT_NE(e.out.find("matches *the activation is not weighted by the token's gammas* in "),
            std::string::npos)
      << e.out;
}

TEST(LineUp, AnHonestRunHasNone) {
  const Ended e = program("run --cases 200 --impl reference");
  EXPECT_EQ(e.code, 0);
  EXPECT_EQ(e.out.find("LINE-UP"), std::string::npos) << e.out;
}

}  // namespace
}  // namespace sinktrap::testing
