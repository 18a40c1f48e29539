#include <fmt/format.h>

#include <algorithm>

#include "gate/nightly/report.hpp"

namespace sinktrap::nightly {
namespace {

// "+12%" against an earlier value; empty when there is none.
std::string change(double now, double before) {
  return before > 0 ? fmt::format("{:+.0f}%", 100 * (now / before - 1)) : "";
}

std::string targets_text(const Report& r) {
  std::string text =
      fmt::format("{:<20} {:>8} {:>12} {:>9} {:>6} {:>9} {:>6} {:>9} {:>8} {:>6}\n", "target", "seconds",
                  "executions", "per s", "", "coverage", "", "features", "corpus", "found");
  for (const TargetResult& t : r.targets) {
    const Before::TargetBefore* before = r.before ? r.before->find(t.name) : nullptr;
    text += fmt::format(
        "{:<20} {:>8.1f} {:>12} {:>9.0f} {:>6} {:>9} {:>6} {:>9} {:>8} {:>6}\n", t.name, t.seconds,
        t.executions, speed_of(t), before ? change(speed_of(t), before->per_second) : "", t.coverage,
        before ? change(static_cast<double>(t.coverage), static_cast<double>(before->coverage)) : "",
        t.features, t.corpus_after, t.found);
    if (!t.given_up.empty()) text += fmt::format("  left early: {}\n", t.given_up);
    if (!t.merge.empty()) text += fmt::format("  {}\n", t.merge);
  }
  return text;
}

std::string finding_block(const Finding& f) {
  std::string text =
      fmt::format("\n{} {} ({})\n", f.standing == Standing::fresh ? "NEW" : standing_name(f.standing),
                  f.law.empty() ? f.kind : f.law, f.target);
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<8}{}\n", name, value);
  };
  line("impl", f.implementation);
  line("case", f.smallest);
  line("from", f.line == f.smallest ? "" : f.line);
  line("reason", f.reason);
  line("place", f.place);
  if (!f.suspect.empty()) line("suspect", fmt::format("{} ({})", f.suspect_what, f.suspect));
  line("note", f.note);
  line("seen", fmt::format("{} times, first {}", f.times, f.first_seen));
  line("repeat", f.repeat);
  return text;
}

}  // namespace

const Before::TargetBefore* Before::find(const std::string& name) const {
  for (const TargetBefore& t : targets)
    if (t.name == name) return &t;
  return nullptr;
}

std::int64_t Report::count(Standing standing) const {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.standing == standing; });
}

bool Report::bad() const {
  return count(Standing::fixed) < static_cast<std::int64_t>(findings.size()) || waiting > 0 ||
         tests.count(Outcome::failed) > 0 || !matrix.survivors.empty();
}

double speed_of(const TargetResult& t) {
  return t.seconds > 0 ? static_cast<double>(t.executions) / t.seconds : 0;
}

std::string verdict_line(const Report& r) {
  std::string text = r.bad() ? "FOUND" : "NOTHING FOUND";
  text +=
      fmt::format(": {} new findings, {} open, {} waiting for triage; {} tests failed; {} mutants survived",
                  r.count(Standing::fresh), r.count(Standing::open) + r.count(Standing::unchecked), r.waiting,
                  r.tests.count(Outcome::failed), r.matrix.survivors.size());
  if (!r.interrupted.empty()) text += fmt::format("; INTERRUPTED by {}", r.interrupted);
  return text;
}

std::string night_text(const Report& r) {
  std::string text = fmt::format("night {} of {}: {:.1f} of {:.0f} s, {} jobs", r.night, r.started, r.seconds,
                                 r.plan.seconds, r.plan.jobs);
  if (!r.implementations.empty()) {
    text += ", on";
    for (const std::string& name : r.implementations) text += " " + name;
  }
  text += "\n";
  if (r.resumed)
    text += fmt::format("the night of {} did not end: {:.1f} of {:.0f} s, in {}; what it found is below\n",
                        r.resumed->started, r.resumed->elapsed, r.resumed->budget, r.resumed->phase);
  if (r.before)
    text += fmt::format("compared with the night of {}: {} findings, {} tests failed, {} mutants killed\n",
                        r.before->started, r.before->findings, r.before->tests_failed, r.before->killed);
  for (const std::string& p : r.problems) text += fmt::format("problem: {}\n", p);
  text += "\n" + targets_text(r);
  for (const Finding& f : r.findings) text += finding_block(f);
  if (r.waiting > 0)
    text += fmt::format(
        "\n{} findings were not triaged; they are kept, and the next night begins with them\n", r.waiting);
  text += fmt::format("\nnightly tests: {} passed, {} failed, {} not run{}\n", r.tests.count(Outcome::passed),
                      r.tests.count(Outcome::failed), r.tests.count(Outcome::not_run),
                      r.tests.problem.empty() ? "" : " (" + r.tests.problem + ")");
  for (const TestResult& t : r.tests.tests)
    if (t.outcome != Outcome::passed)
      text += fmt::format("  {:<8} {}: {}\n", outcome_name(t.outcome), t.name, t.why);
  text += fmt::format("kill matrix: {} of {} mutants killed, {} survived, {} equivalent, {} not run{}{}\n",
                      r.matrix.killed, r.matrix.all, r.matrix.survived, r.matrix.equivalent, r.matrix.not_run,
                      r.matrix.not_run > 0 && r.matrix.problem.empty() ? ": budget" : "",
                      r.matrix.problem.empty() ? "" : ": " + r.matrix.problem);
  for (const std::string& name : r.matrix.survivors) text += fmt::format("  survived {}\n", name);
  text +=
      fmt::format("mutation score: {}\n", r.mutation.score.empty() ? r.mutation.problem : r.mutation.score);
  return text + "\n" + verdict_line(r) + "\n";
}

}  // namespace sinktrap::nightly
