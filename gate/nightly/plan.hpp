// How a night's budget is spent: seconds for each phase, and which target fuzzes when on which job. Pure: the
// same budget gives the same plan.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sinktrap::nightly {

// In this order.
enum class Phase : std::uint8_t {
  recheck,      // findings of earlier nights, judged again
  fuzzing,      // the libFuzzer targets; findings are triaged beside it as they come
  triage,       // findings that fuzzing left
  merging,      // -merge=1: the corpus is minimised
  tests,        // the ctest label nightly
  kill_matrix,  // sinktrap mutants
  mutation,     // tools/mutate, where the budget is long
  report,
};
constexpr int kPhases = 8;
std::string_view phase_name(Phase phase);

// One row of the table of shares: how much of the budget a phase gets, and at most how many seconds; what a
// limit leaves over goes to fuzzing, which has none.
struct Share {
  Phase phase;
  double part;          // of a short budget; they sum up to 1
  double part_long;     // of a budget of at least kLongBudget seconds
  double most_seconds;  // 0: no limit
  std::string_view reason;
};
const std::vector<Share>& shares();
// From here on tools/mutate takes part: it compiles and judges a plug-in for each place, 4 s a place and
// more, so that in a shorter night its share would hold too few for a score.
constexpr double kLongBudget = 2 * 3600;
// Less is no night: stopping a process takes up to kGraceSeconds, and every phase starts some.
constexpr double kLeastBudget = 10;
constexpr double kGraceSeconds = 2;

struct Step {
  Phase phase;
  double start = 0, seconds = 0;  // from the start of the budget
  double end() const { return start + seconds; }
};

// A stretch of fuzzing: one target on one job.
struct Piece {
  std::size_t target = 0;  // index into the list of targets
  int job = 0;
  double start = 0, seconds = 0;  // from the start of the phase
};

struct Plan {
  double seconds = 0;
  int jobs = 1;
  std::vector<Step> steps;  // all phases in order, without gaps; phases that do not take part have 0 seconds
  std::vector<Piece> pieces;  // by job, then start
  const Step& step(Phase phase) const { return steps[static_cast<std::size_t>(phase)]; }
};

// Every target gets the same time: together jobs * fuzzing seconds. `jobs` and `targets` at least 1,
// `seconds` at least kLeastBudget.
Plan make_plan(double seconds, int jobs, std::size_t targets);

// The same for what is really left when fuzzing begins.
std::vector<Piece> make_pieces(double seconds, int jobs, std::size_t targets);

// The plan in words, a line for each phase.
std::string plan_text(const Plan& plan, const std::vector<std::string>& targets);

}  // namespace sinktrap::nightly
