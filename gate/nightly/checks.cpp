#include "gate/nightly/checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "gate/nightly/bounds.hpp"

namespace sinktrap::nightly {
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A ctest name as a regular expression that matches it alone.
std::string exactly(const std::string& name) {
  std::string pattern = "^";
  for (const char c : name) {
    if (std::string_view(".[]()*+?^$\\|{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

struct RunningTest {
  std::string name;
  std::unique_ptr<Process> process;
  std::deque<std::string> lines;  // the last ones
};

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  return outcome == Outcome::passed ? "passed" : outcome == Outcome::failed ? "failed" : "not run";
}

std::vector<std::string> test_order(std::vector<std::string> names,
                                    const std::map<std::string, TestHistory>& history) {
  const auto of = [&](const std::string& name) {
    const auto at = history.find(name);
    return at == history.end() ? TestHistory() : at->second;
  };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    const TestHistory x = of(a), y = of(b);
    const bool x_failed = x.outcome == Outcome::failed, y_failed = y.outcome == Outcome::failed;
    if (x_failed != y_failed) return x_failed;
    if (x.night != y.night) return x.night < y.night;
    return x.seconds < y.seconds;
  });
  return names;
}

std::vector<std::string> test_names(const std::string& listing) {
  std::vector<std::string> names;
  std::size_t at = 0;
  while (at < listing.size()) {
    const std::size_t end = std::min(listing.size(), listing.find('\n', at));
    const std::string line = listing.substr(at, end - at);
    at = end + 1;
    const std::size_t test = line.find("Test "), colon = line.find(": ");
    // "  Test  #12: name": the number may be padded.
    if (test == std::string::npos || line.find_first_not_of(' ') != test || colon == std::string::npos ||
        line.find('#') > colon)
      continue;
    names.push_back(line.substr(colon + 2));
  }
  return names;
}

TestResult read_test_output(const std::string& name, int code, const std::vector<std::string>& lines) {
  TestResult r{name, code == 0 ? Outcome::passed : Outcome::failed, 0, ""};
  for (const std::string& line : lines) {
    if (line.find("***Skipped") != std::string::npos || line.find("(Disabled)") != std::string::npos) {
      r.outcome = Outcome::not_run;
      r.why = "skipped by the test itself";
    }
    if (line.find("No tests were found") != std::string::npos) {
      r.outcome = Outcome::not_run;
      r.why = "ctest does not know it";
    }
    const std::size_t stars = line.find("***");
    if (r.outcome == Outcome::failed && stars != std::string::npos) r.why = line.substr(stars + 3);
  }
  // A test program that is not built is "Not Run" for ctest, which is a failure: the build is not whole.
  if (r.outcome == Outcome::failed && r.why.empty()) r.why = fmt::format("ctest ended with code {}", code);
  while (!r.why.empty() && r.why.back() == ' ') r.why.pop_back();
  return r;
}

std::int64_t TestsResult::count(Outcome outcome) const {
  return std::count_if(tests.begin(), tests.end(), [&](const TestResult& t) { return t.outcome == outcome; });
}

TestsResult run_tests(const CheckContext& c, const std::string& build, double seconds, int jobs,
                      const std::map<std::string, TestHistory>& history) {
  const auto start = Clock::now();
  const auto left = [&] { return seconds - seconds_since(start); };
  TestsResult result;
  std::string listing;
  Command list;
  list.arguments = {"ctest", "--test-dir", build, "-N", "-L", "nightly"};
  const auto code =
      run_within(c.guard, list, left(), [&](std::string_view line) { listing.append(line) += '\n'; });
  const std::vector<std::string> names = test_order(test_names(listing), history);
  if (names.empty()) {
    result.problem = code.value_or(0) == 127 ? "not run: ctest is missing (apt-get install cmake)"
                     : !code                 ? "not run: budget"
                             : fmt::format("not run: {} has no test with the label nightly", build);
    return result;
  }
  std::deque<std::string> waiting(names.begin(), names.end());
  std::vector<std::unique_ptr<RunningTest>> running;
  while (!waiting.empty() || !running.empty()) {
    const bool over = left() <= 0 || caught_signal() != 0;
    while (!waiting.empty() && (over || static_cast<int>(running.size()) < jobs)) {
      const std::string name = waiting.front();
      waiting.pop_front();
      const auto known = history.find(name);
      if (over || (known != history.end() && known->second.seconds > left())) {
        result.tests.push_back({name, Outcome::not_run, 0, "budget"});
        continue;
      }
      auto test = std::make_unique<RunningTest>();
      test->name = name;
      Command command;
      command.arguments = {"ctest",   "--test-dir", build,         "-L",
                           "nightly", "-R",         exactly(name), "--output-on-failure"};
      RunningTest* self = test.get();
      test->process = std::make_unique<Process>(c.guard, command, [self](std::string_view line) {
        self->lines.emplace_back(line);
        if (self->lines.size() > 200) self->lines.pop_front();
      });
      running.push_back(std::move(test));
    }
    std::vector<Process*> waits;
    for (auto& test : running) {
      test->process->attend();
      if (left() <= 0 || caught_signal() != 0) test->process->stop(0.5);
      waits.push_back(test->process.get());
      if (!test->process->ended()) continue;
      TestResult r =
          read_test_output(test->name, test->process->code(), {test->lines.begin(), test->lines.end()});
      r.seconds = test->process->seconds();
      // What was stopped has no result, whatever it said.
      if (test->process->stopped())
        r = {test->name, Outcome::not_run, r.seconds,
             fmt::format("budget (stopped after {:.0f} s)", r.seconds)};
      result.tests.push_back(std::move(r));
    }
    running.erase(
        std::remove_if(running.begin(), running.end(), [](const auto& t) { return t->process->ended(); }),
        running.end());
    c.tick();
    if (!running.empty()) wait_for(waits, left());
  }
  return result;
}

MutationResult run_mutation(const CheckContext& c, const std::string& tool, const std::string& build,
                            double seconds, const std::string& out) {
  MutationResult result;
  if (seconds <= 0) {
    result.problem = "not run: budget";
    return result;
  }
  if (access(tool.c_str(), X_OK) != 0) {
    result.problem = fmt::format("not run: {} is missing", tool);
    return result;
  }
  // The tool looks at its clock between places, and one place takes up to this long.
  constexpr double kOnePlace = 30;
  Command command;
  command.arguments = {tool,    "--build",   build,
                       "--out", out,         "--sample",
                       "70",    "--seconds", fmt::format("{:.0f}", std::max(1.0, seconds - kOnePlace))};
  std::string last;
  const auto code = run_within(c.guard, command, seconds, [&](std::string_view line) { last = line; });
  if (code == 0)
    result.score = last.substr(0, last.find(';'));
  else
    result.problem = code ? fmt::format("not run: {}", last) : "not run: budget";
  return result;
}

}  // namespace sinktrap::nightly
