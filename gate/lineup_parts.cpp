// Primitive suspects in the line-up.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "gate/lineup.hpp"
#include "gate/suspects.hpp"
#include "judge/session.hpp"
#include "judge/transcript.hpp"
#include "judge/worker.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

// A batch of this many products costs well below a tenth of a millisecond, and a thousand primitives less
// than a tenth of a second.
constexpr std::int64_t kMostWork = 1 << 11;
constexpr std::size_t kEvidence = 6;      // batches on which every primitive is tried
constexpr std::size_t kMostBatches = 60;  // batches on which those that match are counted
constexpr std::size_t kMostPairs = 4000;  // tried on a batch: less than a second
constexpr double kSeconds = 15, kTaskSeconds = 10;
constexpr std::size_t kKept = 6, kAlike = 2;  // suspects in a report, and names of one suspect

std::int64_t work_of(const ForwardCase& c) {
  return std::max<std::int64_t>(c.T(), 1) * c.layer.d.n * c.layer.d.F * c.layer.d.H;
}

// Failing exact batches that are small enough, the largest first: they can tell more suspects apart.
std::vector<std::string> batches_of(const std::vector<FailingCase>& failing) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::set<std::string> seen;
  for (const FailingCase& f : failing) {
    const auto parsed = parse_case(f.line);
    const auto* c = std::get_if<Case>(&parsed);
    const auto* batch = c != nullptr ? std::get_if<ForwardCase>(c) : nullptr;
    if (batch == nullptr || batch->layer.fill != Fill::lattice || !batch->layer.put.empty() ||
        batch->T() == 0 || work_of(*batch) > kMostWork || !seen.insert(f.line).second)
      continue;
    found.emplace_back(work_of(*batch), f.line);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines(found.size());
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = std::move(found[i].second);
  return lines;
}

std::uint64_t number_of(const Tensor& out) {
  const Transcript transcript;
  Transcript::record(kOutEntry, out);
  return transcript.number();
}

class Parts {
 public:
  Parts(std::shared_ptr<const Implementation> implementation, const LineupOptions& options)
      : implementation_(std::move(implementation)), options_(options) {}

  void run(const std::vector<std::string>& batches, Lineup& result) {
    look(batches);
    if (evidence_.empty()) return;
    candidates_.clear();
    for (const auto& entry : classes()) {
      const std::size_t first = entry.second.front();
      if (std::all_of(evidence_.begin(), evidence_.end(),
                      [&](const Behaviour& b) { return b.matches[first]; }))
        candidates_.push_back({static_cast<int>(first)});
    }
    if (candidates_.empty()) find_pairs();
    count(batches, result);
  }

 private:
  bool in_time() const { return std::chrono::duration<double>(Clock::now() - start_).count() < kSeconds; }

  // In a child: the numbers of the implementation's output, the right one, and of each candidate's.
  Judgement observe(const Task& t) const {
    Judgement answer;
    try {
      const ForwardCase c = std::get<ForwardCase>(std::get<Case>(parse_case(t.line)));
      const ForwardInputs in = make_inputs(c);
      Session session(*implementation_, in, {c.layer.schedule, std::nullopt});
      must_succeed(*implementation_, session.bind(in.pool), "bind");
      const auto own = session.forward(in.x, in.gammas, in.token_slot);
      must_succeed(*implementation_, own.verdict, "forward");
      const auto add = [&](const Tensor& out) {
        answer.details.push_back(fmt::format("{:x}", number_of(out)));
      };
      add(own.out);
      add(output_with(in, {}));
      for (const std::vector<int>& c : candidates_) add(output_with(in, c));
    } catch (const Stop& s) {
      answer = s.judgement;
      answer.details.clear();
    }
    return answer;
  }
  // Of all candidates on one batch; empty when the implementation is right on it, or did not answer.
  std::vector<std::string> numbers_on(Workers& workers, const std::string& line) const {
    const Judgement j = workers.run_one({0, 0, line});
    if (is_bad(j.status) || j.details.size() != candidates_.size() + 2 || j.details[0] == j.details[1])
      return {};
    return j.details;
  }
  // A child knows the candidates that there were when it was forked.
  Workers fresh_workers() {
    return Workers([this](const Task& t) { return observe(t); }, {1, kTaskSeconds, options_.folder});
  }

  void look(const std::vector<std::string>& batches) {
    const int count = static_cast<int>(primitives().size());
    for (int i = 0; i < count; ++i) candidates_.push_back({i});
    Workers workers = fresh_workers();
    for (const std::string& line : batches) {
      if (evidence_.size() == kEvidence || !in_time()) break;
      const std::vector<std::string> numbers = numbers_on(workers, line);
      if (numbers.empty()) continue;
      Behaviour b;
      for (std::size_t i = 2; i < numbers.size(); ++i) {
        b.visible.push_back(numbers[i] != numbers[1]);
        b.matches.push_back(numbers[i] == numbers[0]);
      }
      evidence_.push_back(std::move(b));
      numbers_.emplace_back(numbers.begin() + 2, numbers.end());
      lines_.push_back(line);
    }
  }

  // Primitives that cannot be told apart on the evidence, and can be seen in it.
  std::map<std::vector<std::string>, std::vector<std::size_t>> classes() const {
    std::map<std::vector<std::string>, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < primitives().size(); ++i) {
      std::vector<std::string> key;
      bool visible = false;
      for (std::size_t k = 0; k < evidence_.size(); ++k) {
        key.push_back(numbers_[k][i]);
        visible = visible || evidence_[k].visible[i];
      }
      if (visible) alike[key].push_back(i);
    }
    return alike;
  }

  void find_pairs() {
    std::vector<std::size_t> first;
    for (const auto& entry : classes()) first.push_back(entry.second.front());
    std::sort(first.begin(), first.end());
    std::vector<Behaviour> reduced;
    for (const Behaviour& b : evidence_) {
      Behaviour r;
      for (const std::size_t i : first) {
        r.visible.push_back(b.visible[i]);
        r.matches.push_back(b.matches[i]);
      }
      reduced.push_back(std::move(r));
    }
    candidates_ = pairs_worth_trying(reduced, kMostPairs);
    for (std::vector<int>& pair : candidates_)
      for (int& i : pair) i = static_cast<int>(first[static_cast<std::size_t>(i)]);
    // The smallest batch first: it is the cheapest, and leaves few.
    for (std::size_t k = lines_.size(); k-- > 0 && !candidates_.empty() && in_time();) {
      Workers workers = fresh_workers();
      const std::vector<std::string> numbers = numbers_on(workers, lines_[k]);
      std::vector<std::vector<int>> left;
      for (std::size_t i = 2; i < numbers.size(); ++i)
        if (numbers[i] == numbers[0]) left.push_back(candidates_[i - 2]);
      candidates_ = std::move(left);
    }
    if (!in_time()) candidates_.clear();  // some were not tried
  }

  void count(const std::vector<std::string>& batches, Lineup& result) {
    if (candidates_.size() > kKept) candidates_.resize(kKept);
    std::vector<std::int64_t> matched(candidates_.size(), 0);
    Workers workers = fresh_workers();
    for (std::size_t k = 0; k < std::min(batches.size(), kMostBatches) && in_time(); ++k) {
      const std::vector<std::string> numbers = numbers_on(workers, batches[k]);
      if (numbers.empty()) continue;
      ++result.parts_compared;
      for (std::size_t i = 2; i < numbers.size(); ++i) matched[i - 2] += numbers[i] == numbers[0];
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (result.parts_compared > 0 && 2 * matched[i] >= result.parts_compared)
        result.parts.push_back({"", words(candidates_[i]), matched[i]});
    std::stable_sort(result.parts.begin(), result.parts.end(),
                     [](const Suspect& a, const Suspect& b) { return a.matched > b.matched; });
  }

  std::string words(const std::vector<int>& candidate) const {
    const auto alike = classes();
    std::string text;
    for (const int i : candidate) {
      if (!text.empty()) text += "; and ";
      text += primitives()[static_cast<std::size_t>(i)].what;
      for (const auto& entry : alike) {
        const std::vector<std::size_t>& same = entry.second;
        if (same[0] != static_cast<std::size_t>(i)) continue;
        for (std::size_t k = 1; k < std::min(same.size(), kAlike); ++k)
          text += " (or, alike here, " + primitives()[same[k]].what + ")";
      }
    }
    return text;
  }

  std::shared_ptr<const Implementation> implementation_;
  const LineupOptions& options_;
  std::vector<std::vector<int>> candidates_;
  std::vector<Behaviour> evidence_;
  std::vector<std::vector<std::string>> numbers_;  // [evidence][primitive]
  std::vector<std::string> lines_;                 // [evidence]
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void try_parts(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const LineupOptions& options, Lineup& result) {
  const std::vector<std::string> batches = batches_of(failing);
  if (!batches.empty()) Parts(implementation, options).run(batches, result);
}

bool needs_trial(const Behaviour& on, const std::vector<int>& pair) {
  return std::all_of(pair.begin(), pair.end(),
                     [&](int i) { return on.visible[static_cast<std::size_t>(i)]; });
}

std::vector<std::vector<int>> pairs_worth_trying(const std::vector<Behaviour>& cases, std::size_t most) {
  struct Pair {
    int confirmed, a, b;
  };
  std::vector<Pair> found;
  const int count = cases.empty() ? 0 : static_cast<int>(cases[0].visible.size());
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      int confirmed = 0;
      const bool possible = std::all_of(cases.begin(), cases.end(), [&](const Behaviour& on) {
        const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
        if (on.visible[i] && on.visible[j]) return true;
        const bool right = (on.visible[i] && on.matches[i]) || (on.visible[j] && on.matches[j]);
        confirmed += right;
        return right;
      });
      if (possible) found.push_back({confirmed, a, b});
    }
  std::stable_sort(found.begin(), found.end(),
                   [](const Pair& x, const Pair& y) { return x.confirmed > y.confirmed; });
  if (found.size() > most) found.resize(most);
  std::vector<std::vector<int>> pairs;
  pairs.reserve(found.size());
  for (const Pair& p : found) pairs.push_back({p.a, p.b});
  return pairs;
}

}  // namespace sinktrap
