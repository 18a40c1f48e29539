// The report of a night: one set of numbers, as text, as JSON and as a page.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gate/nightly/checks.hpp"
#include "gate/nightly/findings.hpp"
#include "gate/nightly/fuzzing.hpp"
#include "gate/nightly/plan.hpp"
#include "gate/nightly/state.hpp"

namespace sinktrap::nightly {

// The numbers of an earlier report that this one is compared with.
struct Before {
  struct TargetBefore {
    std::string name;
    double per_second = 0;
    std::int64_t coverage = 0, features = 0, corpus = 0;
  };
  std::string started;
  std::vector<TargetBefore> targets;
  std::int64_t findings = 0, tests_failed = 0, killed = 0;
  const TargetBefore* find(const std::string& name) const;
};

struct Report {
  std::string started, ended;  // UTC
  std::int64_t night = 1;
  Plan plan;
  std::vector<double> spent;  // seconds by phase
  double seconds = 0;         // of the budget, in all
  std::vector<std::string> implementations;
  std::vector<TargetResult> targets;
  std::vector<Finding> findings;  // new ones first
  std::int64_t waiting = 0;       // raw findings that were not triaged
  TestsResult tests;
  MatrixResult matrix;
  MutationResult mutation;
  std::vector<std::string> problems;   // damaged files and the like
  std::optional<NightRecord> resumed;  // a night before that did not end
  std::string interrupted;             // "", or the signal
  std::optional<Before> before;

  std::int64_t count(Standing standing) const;
  // Exit code 1: a finding that was not seen to be put right, a test that failed, a mutant that survived.
  bool bad() const;
};

// Executions a second over all runs of a target.
double speed_of(const TargetResult& target);
std::string verdict_line(const Report& report);

std::string night_text(const Report& report);
std::string night_json(const Report& report);
// Self-contained: no script, no style, image or font from elsewhere.
std::string night_html(const Report& report);

// From the JSON of an earlier report; absent when it is none.
std::optional<Before> read_before(const std::string& json);

}  // namespace sinktrap::nightly
