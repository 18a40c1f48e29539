// What a night leaves for the next one beside findings and corpus: how far it came, and what tests took.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gate/nightly/checks.hpp"

namespace sinktrap::nightly {

// How far a night came, written every few seconds.
struct NightRecord {
  std::int64_t night = 0;  // counts from 1
  std::string started;     // UTC
  double budget = 0, elapsed = 0;
  std::string phase;
  bool finished = true;
  struct TargetRecord {
    std::string name;
    double seconds = 0;
    std::int64_t executions = 0, coverage = 0, found = 0;
  };
  std::vector<TargetRecord> targets;
};

struct State {
  NightRecord last;
  std::map<std::string, TestHistory> tests;
};

std::string state_text(const State& state);
// False when the text is no state or was cut off; `state` is then empty.
bool parse_state(const std::string& text, State& state);

}  // namespace sinktrap::nightly
