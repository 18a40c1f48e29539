#include "gate/lineup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "gate/run.hpp"
#include "judge/localise.hpp"
#include "judge/transcript.hpp"
#include "judge/worker.hpp"
#include "mutants/mutants.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

// Cases that every mutant is tried on; the mutants that match one of them are tried on the rest.
constexpr std::size_t kFirstCases = 6, kMostCases = 60;
constexpr double kSeconds = 20;     // for all of it: about what shrinking one failure may take
constexpr double kCaseSeconds = 2;  // a mutant that hangs; others need milliseconds
constexpr std::size_t kShown = 6;   // suspects in a report

// Outputs of these are the same for every legal arithmetic, so that equal bits mean an equal fault.
bool is_exact(const std::string& line) {
  const auto parsed = parse_case(line);
  if (!std::holds_alternative<Case>(parsed)) return false;
  const Case& c = std::get<Case>(parsed);
  if (const auto* f = std::get_if<ForwardCase>(&c))
    return f->layer.fill == Fill::lattice && f->layer.put.empty();
  return !std::holds_alternative<StateCase>(c);
}

// Exact cases where there are any, one of each law in turn.
std::vector<FailingCase> choose(const std::vector<FailingCase>& failing) {
  const bool any_exact =
      std::any_of(failing.begin(), failing.end(), [](const FailingCase& f) { return is_exact(f.line); });
  std::map<const Law*, std::vector<FailingCase>> by_law;
  std::size_t total = 0;
  for (const FailingCase& f : failing)
    if (!any_exact || is_exact(f.line)) {
      by_law[f.law].push_back(f);
      ++total;
    }
  std::vector<FailingCase> chosen;
  for (std::size_t k = 0; chosen.size() < std::min(total, kMostCases); ++k)
    for (const auto& [law, cases] : by_law)
      if (k < cases.size() && chosen.size() < kMostCases) chosen.push_back(cases[k]);
  return chosen;
}

// A mutant that offers no more than the implementation does, so that both get the same calls.
std::shared_ptr<const Implementation> disguised(int mutant, const Implementation& like) {
  static sinktrap_implementation_table table;
  table = select_mutant(mutant)->table();
  table.capabilities &= like.table().capabilities;
  return Implementation::from_table(&table, "mutant", "");
}

class Room {
 public:
  Room(std::shared_ptr<const Implementation> implementation, std::vector<FailingCase> cases,
       const std::string& folder, int workers)
      : implementation_(std::move(implementation)),
        cases_(std::move(cases)),
        workers_([this](const Task& t) { return observe(t); }, {workers, kCaseSeconds, folder}) {}

  Lineup run() {
    Lineup result;
    if (cases_.empty()) return result;
    std::vector<std::size_t> everyone;
    for (std::size_t m = 0; m < mutants().size(); ++m)
      if (!mutants()[m].large() && table_fault(&select_mutant(static_cast<int>(m))->table()).empty())
        everyone.push_back(m);
    seen_.assign(cases_.size(), {});
    matched_.assign(mutants().size(), 0);
    const std::size_t first = std::min(cases_.size(), kFirstCases);
    compare(0, first, everyone);
    std::vector<std::size_t> left;
    for (const std::size_t m : everyone)
      if (matched_[m] > 0) left.push_back(m);
    if (!left.empty()) compare(first, cases_.size(), left);
    result.compared = static_cast<std::int64_t>(left.empty() ? first : cases_.size());
    for (const std::size_t m : left)
      if (2 * matched_[m] >= result.compared)
        result.suspects.push_back(
            {std::string(mutants()[m].name), std::string(mutants()[m].what), matched_[m]});
    std::stable_sort(result.suspects.begin(), result.suspects.end(),
                     [](const Suspect& a, const Suspect& b) { return a.matched > b.matched; });
    if (result.suspects.empty() || result.suspects.front().matched < result.compared) localise_one(result);
    return result;
  }

 private:
  // task.implementation: 0 the implementation, 1 its localisation, m + 2 mutant m. The observation is the
  // reason.
  Judgement observe(const Task& t) const {
    Judgement answer;
    if (t.implementation == 1) {
      try {
        answer.details =
            localise(std::get<ForwardCase>(std::get<Case>(parse_case(t.line))), *implementation_);
      } catch (const Stop& s) {
        answer.details = {"stage    not known: " + s.judgement.reason};
      }
      return answer;
    }
    const auto who = t.implementation == 0
                         ? implementation_
                         : disguised(static_cast<int>(t.implementation) - 2, *implementation_);
    const Transcript transcript;
    const Judgement j = judge_line(laws()[t.law], t.line, *who);
    answer.reason = fmt::format("{} {:x} {}", status_name(j.status), transcript.number(), j.reason);
    return answer;
  }
  static std::string text_of(const Judgement& j) {
    return is_bad(j.status) ? fmt::format("{} {}", status_name(j.status), j.reason) : j.reason;
  }
  Task task(std::size_t k, std::size_t who) const {
    return {static_cast<std::uint32_t>(who), static_cast<std::uint32_t>(cases_[k].law - &laws()[0]),
            cases_[k].line};
  }
  bool in_time() const { return std::chrono::duration<double>(Clock::now() - start_).count() < kSeconds; }

  // Cases first..last of these mutants; the implementation first, since its behaviour says who is worth a
  // try.
  void compare(std::size_t first, std::size_t last, const std::vector<std::size_t>& who) {
    for (std::size_t k = first; k < last; ++k) {
      if (!in_time() && k > 0) {
        cases_.resize(k);
        return;
      }
      const Judgement own = workers_.run_one(task(k, 0));
      seen_[k] = text_of(own);
      std::vector<std::size_t> queue = who;
      if (own.status != Status::timed_out)  // one that hangs costs the time limit and matches nothing
        queue.erase(std::remove_if(queue.begin(), queue.end(),
                                   [](std::size_t m) { return mutants()[m].name == "hang_in_forward"; }),
                    queue.end());
      std::size_t next = 0;
      workers_.run(
          [&]() -> std::optional<Task> {
            if (next == queue.size()) return std::nullopt;
            return task(k, queue[next++] + 2);
          },
          [&](const Task& t, const Judgement& j) {
            if (text_of(j) == seen_[k]) ++matched_[t.implementation - 2];
          });
    }
  }

  void localise_one(Lineup& result) {
    for (std::size_t k = 0; k < cases_.size(); ++k) {
      const auto parsed = parse_case(cases_[k].line);
      if (!std::holds_alternative<ForwardCase>(std::get<Case>(parsed))) continue;
      const Judgement j = workers_.run_one(task(k, 1));
      if (is_bad(j.status) || j.details.empty()) continue;
      result.localisation = j.details;
      result.localised_on = cases_[k].line;
      return;
    }
  }

  std::shared_ptr<const Implementation> implementation_;
  std::vector<FailingCase> cases_;
  std::vector<std::string> seen_;
  std::vector<std::int64_t> matched_;
  Workers workers_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Lineup line_up(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const std::string& folder, int workers) {
  return Room(implementation, choose(failing), folder, workers).run();
}

std::vector<std::string> lineup_text(const Lineup& lineup) {
  std::vector<std::string> lines;
  if (lineup.compared == 0) return lines;
  for (std::size_t i = 0; i < std::min(kShown, lineup.suspects.size()); ++i) {
    const Suspect& s = lineup.suspects[i];
    lines.push_back(fmt::format("matches *{}* in {} of {} failing cases ({})", s.what, s.matched,
                                lineup.compared, s.name));
  }
  if (lineup.suspects.size() > kShown)
    lines.push_back(fmt::format("... and {} more", lineup.suspects.size() - kShown));
  if (lineup.suspects.empty()) lines.push_back("no known fault behaves like this implementation");
  if (!lineup.localisation.empty()) {
    lines.push_back("where, on " + lineup.localised_on);
    for (const std::string& line : lineup.localisation) lines.push_back("  " + line);
  }
  return lines;
}

}  // namespace sinktrap
