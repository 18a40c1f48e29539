// The phases that run what is no fuzz target: the nightly tests, the kill matrix, the score of general
// mutants.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gate/nightly/process.hpp"

namespace sinktrap::nightly {

enum class Outcome : std::uint8_t { passed, failed, not_run };
std::string_view outcome_name(Outcome outcome);

struct TestResult {
  std::string name;
  Outcome outcome = Outcome::not_run;
  double seconds = 0;
  std::string why;  // of not_run: "budget", "skipped: ..."; of failed: its last line
};

// What is known of a test from nights before.
struct TestHistory {
  double seconds = 0;  // of its last whole run
  Outcome outcome = Outcome::not_run;
  std::int64_t night = 0;  // the last in which it ran to its end
};

// In which order tests run within a budget: those that failed last time, then those that have not run for the
// longest time, the shortest of these first.
std::vector<std::string> test_order(std::vector<std::string> names,
                                    const std::map<std::string, TestHistory>& history);

// Names in the output of `ctest -N`.
std::vector<std::string> test_names(const std::string& listing);
// Failed, passed, or not run with the reason, from the output of ctest for one test.
TestResult read_test_output(const std::string& name, int code, const std::vector<std::string>& lines);

struct CheckContext {
  const Guard& guard;
  std::function<void()> tick = [] {};
};

struct TestsResult {
  std::vector<TestResult> tests;
  std::string problem;  // one line: why there is none
  std::int64_t count(Outcome outcome) const;
};
// The tests of `build` with the label nightly, `jobs` at once. One that does not fit into what is left of
// `seconds`, by its last time, is not started; one that does not end in time is stopped: both are not run.
TestsResult run_tests(const CheckContext& c, const std::string& build, double seconds, int jobs,
                      const std::map<std::string, TestHistory>& history);

struct MatrixResult {
  std::int64_t all = 0, killed = 0, survived = 0, equivalent = 0, not_run = 0;
  std::vector<std::string> survivors;  // and honest ones that were refused
  std::string problem;
};
// `program` mutants in batches of names; batches that do not fit are not run. `from` turns the list, so that
// short nights see different mutants.
MatrixResult run_matrix(const CheckContext& c, const std::string& program, double seconds, int jobs,
                        const std::string& folder, std::uint64_t seed, std::size_t from);

struct MutationResult {
  std::string score;    // "55 of 60 viable mutants killed"; empty when it was not run
  std::string problem;  // "not run: budget", ...
};
MutationResult run_mutation(const CheckContext& c, const std::string& tool, const std::string& build,
                            double seconds, const std::string& out);

}  // namespace sinktrap::nightly
