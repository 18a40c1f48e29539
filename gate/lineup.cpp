#include "gate/lineup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "gate/finding.hpp"
#include "gate/run.hpp"
#include "judge/transcript.hpp"
#include "judge/worker.hpp"
#include "mutants/mutants.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

// Cases that every mutant is tried on; the mutants that match one of them are tried on the rest.
constexpr std::size_t kFirstCases = 6, kMostCases = 60;
constexpr double kSeconds = 20;     // for known faults: about what shrinking one failure may take
constexpr double kCaseSeconds = 2;  // a mutant that hangs; others need milliseconds
constexpr std::size_t kShown = 6;   // suspects in a report
// Pairs of mutants tried on a case where both are visible, about a millisecond each; and pairs counted on the
// rest of the cases.
constexpr std::size_t kMostPairs = 3000, kLastPairs = 24;
constexpr double kFindingSeconds = 10;  // localising judges a case a hundred times
// Mutants that hide every other in one process.
constexpr std::string_view kAlone[] = {"crash_in_forward", "hang_in_forward"};

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
std::shared_ptr<const Implementation> disguised(int mutant, int also, const Implementation& like) {
  static sinktrap_implementation_table table;
  table = select_mutant(mutant, also)->table();
  table.capabilities &= like.table().capabilities;
  return Implementation::from_table(&table, "mutant", "");
}

// Mutants, one or two at a time, against the implementation.
class Room {
 public:
  Room(std::shared_ptr<const Implementation> implementation, std::vector<FailingCase> cases,
       const LineupOptions& options)
      : implementation_(std::move(implementation)),
        cases_(std::move(cases)),
        workers_([this](const Task& t) { return observe(t); },
                 {options.workers, kCaseSeconds, options.folder}) {
    for (std::size_t m = 0; m < mutants().size(); ++m)
      if (!mutants()[m].large() && table_fault(&select_mutant(static_cast<int>(m))->table()).empty())
        everyone_.push_back({static_cast<int>(m), kUnmutated});
    matched_.assign(mutants().size(), 0);
  }

  void run(Lineup& result) {
    const std::size_t first = std::min(cases_.size(), kFirstCases);
    compare(0, first, everyone_);
    std::vector<Who> left;
    for (const Who& m : everyone_)
      if (matched_[static_cast<std::size_t>(m[0])] > 0) left.push_back(m);
    if (!left.empty()) compare(first, cases_.size(), left);
    result.compared =
        static_cast<std::int64_t>(left.empty() ? std::min(first, cases_.size()) : cases_.size());
    for (const Who& m : left) add(m, matched_[static_cast<std::size_t>(m[0])], result);
    sort(result);
    if (result.suspects.empty() || result.suspects.front().matched < result.compared) run_pairs(result);
  }

 private:
  using Who = std::vector<int>;  // mutant and a second one, or kUnmutated

  static void add(const Who& who, std::int64_t matched, Lineup& result) {
    if (2 * matched < result.compared) return;
    const Mutant& a = mutants()[static_cast<std::size_t>(who[0])];
    Suspect s{std::string(a.name), std::string(a.what), matched};
    if (who[1] != kUnmutated) {
      const Mutant& b = mutants()[static_cast<std::size_t>(who[1])];
      s.name += "+" + std::string(b.name);
      s.what += "; and " + std::string(b.what);
    }
    result.suspects.push_back(std::move(s));
  }
  static void sort(Lineup& result) {
    std::stable_sort(result.suspects.begin(), result.suspects.end(),
                     [](const Suspect& a, const Suspect& b) { return a.matched > b.matched; });
  }

  // task.implementation: 0 the implementation, else 1 and the two mutants, unmutated being the last.
  std::uint32_t code(const Who& who) const {
    const auto M = static_cast<std::uint32_t>(mutants().size());
    const auto digit = [M](int m) { return m == kUnmutated ? M : static_cast<std::uint32_t>(m); };
    return 1 + digit(who[0]) * (M + 1) + digit(who[1]);
  }
  Judgement observe(const Task& t) const {
    const auto M = static_cast<std::uint32_t>(mutants().size());
    const auto mutant = [M](std::uint32_t digit) {
      return digit == M ? kUnmutated : static_cast<int>(digit);
    };
    const std::uint32_t who = t.implementation - 1;
    const auto judged = t.implementation == 0
                            ? implementation_
                            : disguised(mutant(who / (M + 1)), mutant(who % (M + 1)), *implementation_);
    Judgement answer;
    const Transcript transcript;
    const Judgement j = judge_line(laws()[t.law], t.line, *judged);
    answer.reason = fmt::format("{} {:x} {}", status_name(j.status), transcript.number(), j.reason);
    return answer;
  }
  static std::string text_of(const Judgement& j) {
    return is_bad(j.status) ? fmt::format("{} {}", status_name(j.status), j.reason) : j.reason;
  }
  Task task(std::size_t k, std::uint32_t who) const {
    return {who, static_cast<std::uint32_t>(cases_[k].law - &laws()[0]), cases_[k].line};
  }
  bool in_time() const { return std::chrono::duration<double>(Clock::now() - start_).count() < kSeconds; }

  // What each of them does on case k, in their order.
  std::vector<std::string> texts(std::size_t k, const std::vector<Who>& who) {
    std::map<std::uint32_t, std::size_t> place;
    for (std::size_t i = 0; i < who.size(); ++i) place[code(who[i])] = i;
    std::vector<std::string> found(who.size());
    std::size_t next = 0;
    workers_.run(
        [&]() -> std::optional<Task> {
          if (next == who.size()) return std::nullopt;
          return task(k, code(who[next++]));
        },
        [&](const Task& t, const Judgement& j) { found[place[t.implementation]] = text_of(j); });
    return found;
  }

  // Cases first..last of these mutants; the implementation first, since its behaviour says who is worth a
  // try. Keeps what was seen of everyone for the pairs.
  void compare(std::size_t first, std::size_t last, const std::vector<Who>& who) {
    for (std::size_t k = first; k < last; ++k) {
      if (!in_time() && k > 0) {
        cases_.resize(k);
        return;
      }
      const Judgement own = workers_.run_one(task(k, 0));
      own_.push_back(text_of(own));
      std::vector<Who> queue = who;
      if (own.status != Status::timed_out)  // one that hangs costs the time limit and matches nothing
        queue.erase(std::remove_if(queue.begin(), queue.end(),
                                   [](const Who& m) {
                                     return mutants()[static_cast<std::size_t>(m[0])].name ==
                                            "hang_in_forward";
                                   }),
                    queue.end());
      const std::string honest = text_of(workers_.run_one(task(k, code({kUnmutated, kUnmutated}))));
      Behaviour b{std::vector<bool>(mutants().size(), false), std::vector<bool>(mutants().size(), false)};
      const std::vector<std::string> found = texts(k, queue);
      for (std::size_t i = 0; i < queue.size(); ++i) {
        const auto m = static_cast<std::size_t>(queue[i][0]);
        b.matches[m] = found[i] == own_[k];
        b.visible[m] = found[i] != honest &&
                       std::find(std::begin(kAlone), std::end(kAlone), mutants()[m].name) == std::end(kAlone);
        matched_[m] += b.matches[m];
      }
      if (k < kFirstCases) seen_.push_back(std::move(b));
    }
  }

  void run_pairs(Lineup& result) {
    std::vector<Who> pairs = pairs_worth_trying(seen_, kMostPairs);
    const auto keep_matching = [&](std::size_t k, bool only_trials) {
      std::vector<Who> tried, left;
      for (const Who& p : pairs) (only_trials && !needs_trial(seen_[k], p) ? left : tried).push_back(p);
      const std::vector<std::string> found = texts(k, tried);
      for (std::size_t i = 0; i < tried.size(); ++i)
        if (found[i] == own_[k]) left.push_back(tried[i]);
      pairs = std::move(left);
    };
    for (std::size_t k = 0; k < seen_.size() && in_time() && !pairs.empty(); ++k) keep_matching(k, true);
    if (pairs.empty() || !in_time()) return;
    if (pairs.size() > kLastPairs) pairs.resize(kLastPairs);
    std::vector<std::int64_t> matched(pairs.size(), 0);
    std::int64_t compared = 0;
    for (std::size_t k = 0; k < cases_.size() && in_time(); ++k) {
      if (k >= own_.size()) own_.push_back(text_of(workers_.run_one(task(k, 0))));
      const std::vector<std::string> found = texts(k, pairs);
      for (std::size_t i = 0; i < pairs.size(); ++i) matched[i] += found[i] == own_[k];
      ++compared;
    }
    if (compared < result.compared) return;  // no time: nothing to compare with the single ones
    const std::int64_t best = result.suspects.empty() ? 0 : result.suspects.front().matched;
    result.compared = compared;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (matched[i] > best) add(pairs[i], matched[i], result);
    sort(result);
  }

  std::shared_ptr<const Implementation> implementation_;
  std::vector<FailingCase> cases_;
  std::vector<Who> everyone_;
  std::vector<std::string> own_;  // [case] what the implementation does
  std::vector<Behaviour> seen_;   // [first case] of the mutants
  std::vector<std::int64_t> matched_;
  Workers workers_;
  Clock::time_point start_ = Clock::now();
};

// What a look at a case costs, in classes: findings judge a case a hundred times. Small batches first; then
// those of one expert, feature or token, which hide what is wrong with their order and their sums; then large
// ones.
constexpr std::int64_t kSmallWork = 1 << 16, kMostWork = 1 << 20;
int cost_class(const std::string& line) {
  const auto parsed = parse_case(line);
  const auto* c = std::get_if<Case>(&parsed);
  const auto* batch = c != nullptr ? std::get_if<ForwardCase>(c) : nullptr;
  if (batch == nullptr) return 0;
  const auto& d = batch->layer.d;
  const std::int64_t work = batch->T() * d.n * d.F * d.H;
  if (work > kSmallWork) return work > kMostWork ? 3 : 2;
  return d.n == 1 || d.F == 1 || batch->T() < 2 ? 1 : 0;
}

void find_stage_of(const std::shared_ptr<const Implementation>& implementation,
                   const std::vector<FailingCase>& failing, const LineupOptions& options, Lineup& result) {
  std::map<const Law*, std::vector<std::pair<int, std::string>>> by_law;
  for (const FailingCase& f : failing)
    if (const int cost = cost_class(f.line); cost < 3) by_law[f.law].emplace_back(cost, f.line);
  for (auto& entry : by_law)
    std::stable_sort(entry.second.begin(), entry.second.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  Workers workers(
      [&](const Task& t) {
        const auto found = find_fault(laws()[t.law], t.line, *implementation);
        return found ? found->to_judgement() : Judgement{};
      },
      {1, kFindingSeconds, options.folder});
  const auto start = Clock::now();
  std::vector<Finding> findings;
  std::vector<std::string> lines;
  for (std::size_t k = 0, more = 1; more != 0; ++k) {
    more = 0;
    for (const auto& [law, cases] : by_law) {
      if (k >= cases.size() || findings.size() >= kFindings ||
          std::chrono::duration<double>(Clock::now() - start).count() > kSeconds)
        continue;
      ++more;
      const Judgement j = workers.run_one({0, static_cast<std::uint32_t>(law - &laws()[0]), cases[k].second});
      if (auto f = Finding::from_judgement(j)) {
        // After a sequence of steps a crash may come from a pool that should have been let go.
        f->weak = f->weak || (f->where.stage == Stage::crash && cases[k].second.compare(0, 6, "state ") == 0);
        findings.push_back(std::move(*f));
        lines.push_back(cases[k].second);
      }
    }
  }
  const auto best = explaining(findings);
  if (!best) return;
  result.stage = row_of(findings[*best].where.stage).id;
  result.localisation = findings[*best].where.lines;
  result.localised_on = lines[*best];
}

}  // namespace

std::optional<LineupMode> find_lineup_mode(std::string_view name) {
  constexpr std::string_view kNames[] = {"all", "parts", "where", "off"};
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) return std::nullopt;
  return static_cast<LineupMode>(at - std::begin(kNames));
}

Lineup line_up(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const LineupOptions& options) {
  Lineup result;
  if (options.mode == LineupMode::off) return result;
  const auto explained = [&] {
    return !result.suspects.empty() && result.suspects.front().matched == result.compared;
  };
  if (options.mode == LineupMode::all) Room(implementation, choose(failing), options).run(result);
  if (options.mode != LineupMode::where && !explained()) try_parts(implementation, failing, options, result);
  if (!explained()) find_stage_of(implementation, failing, options, result);
  return result;
}

std::vector<std::string> lineup_text(const Lineup& lineup) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(kShown, lineup.suspects.size()); ++i) {
    const Suspect& s = lineup.suspects[i];
    lines.push_back(fmt::format("matches *{}* in {} of {} failing cases ({})", s.what, s.matched,
                                lineup.compared, s.name));
  }
  if (lineup.suspects.size() > kShown)
    lines.push_back(fmt::format("... and {} more", lineup.suspects.size() - kShown));
  if (lineup.suspects.empty() && lineup.compared > 0)
    lines.emplace_back("no known fault, and no pair of them, behaves like this implementation");
  for (const Suspect& s : lineup.parts)
    lines.push_back(fmt::format("has the bits of *{}* in {} of {} failing exact batches", s.what, s.matched,
                                lineup.parts_compared));
  if (!lineup.localisation.empty()) {
    lines.push_back("where, on " + lineup.localised_on);
    for (const std::string& line : lineup.localisation) lines.push_back("  " + line);
  }
  return lines;
}

}  // namespace sinktrap
