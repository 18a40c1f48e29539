#include "gate/nightly/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sinktrap::nightly {
namespace {

// Pieces shorter than this are not worth the start of a process (0.1 to 0.3 s with sanitizers); they are
// given to the neighbour on the same job.
constexpr double kLeastPiece = 0.5;

}  // namespace

// All lanes have the same length. The jobs are filled one after the other, and a lane that does not fit is
// cut there: its rest starts the next job. No lane is longer than the phase, so its two parts never overlap,
// and every job is full (McNaughton's rule).
std::vector<Piece> make_pieces(double seconds, int jobs, std::size_t targets) {
  const std::size_t lanes_each = (static_cast<std::size_t>(jobs) + targets - 1) / targets;
  const double lane = seconds * jobs / static_cast<double>(targets * lanes_each);
  std::vector<Piece> pieces;
  int job = 0;
  double at = 0;
  for (std::size_t k = 0; k < targets * lanes_each; ++k) {
    double left = lane;
    while (left > kLeastPiece / 2 && job < jobs) {
      double take = std::min(left, seconds - at);
      if (take < left && take < kLeastPiece) {  // too short here: the piece before gets it
        if (!pieces.empty() && pieces.back().job == job) pieces.back().seconds += take;
        ++job, at = 0;
        continue;
      }
      if (seconds - at - take < kLeastPiece) take = seconds - at;
      pieces.push_back({k / lanes_each, job, at, take});
      left -= take;
      at += take;
      if (seconds - at < kLeastPiece) ++job, at = 0;
    }
  }
  return pieces;
}

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, kPhases> names = {"recheck", "fuzzing",     "triage",   "merging",
                                                           "tests",   "kill matrix", "mutation", "report"};
  return names[static_cast<std::size_t>(phase)];
}

const std::vector<Share>& shares() {
  static const std::vector<Share> table = {
      {Phase::recheck, 0.04, 0.04, 300,
       "a case is judged in milliseconds, a raw input is run once: 300 s are enough for thousands"},
      {Phase::fuzzing, 0.50, 0.45, 0,
       "what the night is for: half, and all that the other phases do not use"},
      {Phase::triage, 0.05, 0.05, 900,
       "one finding takes about a minute (shrinking 10 s, line-up up to 55 s); most are triaged while the "
       "targets run"},
      {Phase::merging, 0.08, 0.08, 1800, "a merge runs every input of a corpus once or twice"},
      {Phase::tests, 0.18, 0.20, 5400,
       "the label nightly takes the better part of an hour on two cores; what does not fit is not run"},
      {Phase::kill_matrix, 0.13, 0.08, 900, "all mutants take 45 s on two idle cores, in batches more"},
      {Phase::mutation, 0.00, 0.08, 3600, "tools/mutate takes minutes to an hour"},
      {Phase::report, 0.02, 0.02, 30, "writing three files, and the end of children that are slow to die"},
  };
  return table;
}

Plan make_plan(double seconds, int jobs, std::size_t targets) {
  Plan plan;
  plan.seconds = seconds;
  plan.jobs = jobs;
  std::array<double, kPhases> each{};
  double others = 0;
  for (const Share& s : shares()) {
    if (s.phase == Phase::fuzzing) continue;
    double& mine = each[static_cast<std::size_t>(s.phase)];
    mine = seconds * (seconds >= kLongBudget ? s.part_long : s.part);
    if (s.most_seconds > 0) mine = std::min(mine, s.most_seconds);
    others += mine;
  }
  each[static_cast<std::size_t>(Phase::fuzzing)] = seconds - others;
  double at = 0;
  for (int p = 0; p < kPhases; ++p) {
    plan.steps.push_back({static_cast<Phase>(p), at, each[static_cast<std::size_t>(p)]});
    at = plan.steps.back().end();
  }
  plan.pieces = make_pieces(plan.step(Phase::fuzzing).seconds, jobs, targets);
  return plan;
}

std::string plan_text(const Plan& plan, const std::vector<std::string>& targets) {
  std::string text = fmt::format("{:.0f} s, {} jobs\n", plan.seconds, plan.jobs);
  for (const Step& step : plan.steps)
    text += fmt::format("  {:<12} {:>8.1f} s  from {:>8.1f} s\n", phase_name(step.phase), step.seconds,
                        step.start);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    double sum = 0;
    for (const Piece& p : plan.pieces)
      if (p.target == t) sum += p.seconds;
    text += fmt::format("    {:<24} {:>8.1f} s of fuzzing\n", targets[t], sum);
  }
  return text;
}

}  // namespace sinktrap::nightly
