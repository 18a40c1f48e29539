// The commands of the program. Each returns the exit code: 0 conforming (or done), 1 not, 2 bad input.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace sinktrap {

struct RunArguments {
  std::vector<std::string> implementations;
  std::string suite = "smoke";
  std::vector<std::string> laws;
  std::optional<int> cases;
  std::optional<double> seconds;
  std::uint64_t seed = 1;
  int jobs = 0;  // 0: as many as there are processors
  double timeout = 60;
  std::string line_up = "all";  // all, parts, where or off: LineupMode
  std::string json, junit, folder = ".sinktrap";
};
int run_command(const RunArguments& arguments);

struct CheckArguments {
  std::vector<std::string> implementations, laws, cases, files;
  std::string json;
  double timeout = 60;
  std::string folder = ".sinktrap";
};
int check_command(const CheckArguments& arguments);

struct ValidateArguments {
  std::vector<std::string> implementations;
  std::string profile = "strict", layout, jsonl;
};
int validate_command(const ValidateArguments& arguments);

struct ReplayArguments {
  std::vector<std::string> implementations, files;
};
int replay_command(const ReplayArguments& arguments);

struct MutantsArguments {
  std::vector<std::string> names;  // empty: all
  int cases = 4000;                // after as many a mutant counts as survivor
  std::uint64_t seed = 1;
  int jobs = 0;
  std::string json, folder = ".sinktrap";
};
int mutants_command(const MutantsArguments& arguments);

// A night: hours of fuzzing, the nightly tests and the kill matrix within a budget (docs/nightly.md).
constexpr double kDefaultNightHours = 8;  // from one working day to the next
struct NightlyArguments {
  std::optional<double> hours, seconds;  // the budget; one of them
  int jobs = 0;
  std::vector<std::string> implementations;  // empty: those that the targets judge by themselves
  std::string out, targets, build, mutate;   // empty: the places in this source tree
  bool dry_run = false;
};
int nightly_command(const NightlyArguments& given);

int list_command(const std::string& what);

// One line on stderr, exit code 2.
int bad_input(const std::string& what);

}  // namespace sinktrap
