#include "gate/nightly/state.hpp"

#include <fmt/format.h>

#include <sstream>

namespace sinktrap::nightly {
namespace {

constexpr const char* kFirst = "sinktrap nightly state 1";  // the number is that of the format
constexpr const char* kLast = "end";

}  // namespace

std::string state_text(const State& s) {
  const NightRecord& n = s.last;
  std::string text = fmt::format("{}\nnight {} {} {} {} {} {}\n", kFirst, n.night,
                                 n.started.empty() ? "-" : n.started, n.budget, n.elapsed,
                                 n.finished ? "finished" : "unfinished", n.phase.empty() ? "-" : n.phase);
  for (const auto& t : n.targets)
    text += fmt::format("target {} {} {} {} {}\n", t.name, t.seconds, t.executions, t.coverage, t.found);
  // The name comes last: it may have spaces.
  for (const auto& [name, t] : s.tests)
    text += fmt::format("test {} {} {} {}\n", t.seconds, static_cast<int>(t.outcome), t.night, name);
  return text + kLast + "\n";
}

bool parse_state(const std::string& text, State& state) {
  state = State();
  State read;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirst) return false;
  while (std::getline(lines, line)) {
    if (line == kLast) {
      state = std::move(read);
      return true;
    }
    std::istringstream words(line);
    std::string what, finished;
    words >> what;
    if (what == "night") {
      NightRecord& n = read.last;
      words >> n.night >> n.started >> n.budget >> n.elapsed >> finished;
      std::getline(words >> std::ws, n.phase);
      n.finished = finished == "finished";
      if (finished != "finished" && finished != "unfinished") return false;
    } else if (what == "target") {
      NightRecord::TargetRecord t;
      if (!(words >> t.name >> t.seconds >> t.executions >> t.coverage >> t.found)) return false;
      read.last.targets.push_back(std::move(t));
    } else if (what == "test") {
      TestHistory t;
      int outcome = 0;
      std::string name;
      if (!(words >> t.seconds >> outcome >> t.night) || outcome < 0 || outcome > 2) return false;
      std::getline(words >> std::ws, name);
      t.outcome = static_cast<Outcome>(outcome);
      read.tests[name] = t;
    } else {
      return false;
    }
  }
  return false;  // cut off
}

}  // namespace sinktrap::nightly
