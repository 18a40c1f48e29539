#include "gate/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>

#include "gate/terminal.hpp"
#include "judge/worker.hpp"
#include "properties/generators.hpp"
#include "properties/shrink.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

// A law that keeps crashing is left after this many cases. Each hang costs a whole time limit, so after this
// many hangs in all a law is left at its first one, and after kMostHangs there is enough to look at: an
// implementation that always hangs is through after four minutes with the limit of a minute and two workers,
// not after one limit for every law.
constexpr int kFatalCasesPerLaw = 3;
constexpr int kHangs = 3, kMostHangs = 8;
constexpr std::string_view kGivenUp = "skipped: cases of this law crashed or hung before";
constexpr std::string_view kEnded = "skipped: too many cases hung before; --timeout sets a shorter limit";
// Judgements spent on shrinking one failure, and time.
constexpr int kShrinkBudget = 600;
constexpr double kShrinkSeconds = 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Mixes the run's seed with the place of a case, so that every law and case has a stream of its own.
std::uint64_t case_seed(std::uint64_t seed, std::uint64_t law, std::uint64_t index) {
  std::uint64_t z =
      seed * 0x9e3779b97f4a7c15ull + law * 0xbf58476d1ce4e5b9ull + index * 0x94d049bb133111ebull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class Runner {
 public:
  Runner(const std::vector<std::shared_ptr<const Implementation>>& implementations,
         const std::vector<CorpusEntry>& corpus, const RunOptions& options)
      : corpus_(corpus),
        options_(options),
        workers_([this](const Task& t) { return judge(t); },
                 {options.workers, options.timeout_seconds, options.folder}),
        progress_(options.progress) {
    result_.seed = options.seed;
    result_.suite = options.suite->name;
    result_.laws = options.laws;
    if (result_.laws.empty())
      for (const Law& law : laws()) result_.laws.push_back(&law);
    for (const auto& i : implementations)
      result_.implementations.push_back({i, std::vector<LawResult>(result_.laws.size()), {}});
  }

  RunResult run() {
    for (std::size_t i = 0; i < result_.implementations.size(); ++i) run_one(i);
    progress_.clear();
    result_.seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  Judgement judge(const Task& t) const {
    return judge_line(*result_.laws[t.law], t.line,
                      *result_.implementations[t.implementation].implementation);
  }

  void run_one(std::size_t index) {
    ImplementationResult& mine = result_.implementations[index];
    plan(static_cast<std::uint32_t>(index));
    fatal_.assign(result_.laws.size(), 0);
    hangs_ = 0;
    const std::int64_t total = planned_;
    std::int64_t finished = 0;
    workers_.run([&] { return next(static_cast<std::uint32_t>(index), mine); },
                 [&](const Task& task, const Judgement& j) {
                   record(mine, task, j);
                   progress_.show(mine.implementation->name(), ++finished, total, seconds_since(start_),
                                  options_.seconds);
                 });
    for (std::size_t l = 0; l < mine.laws.size(); ++l)
      if (!mine.laws[l].failures.empty())
        shrink(mine, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(l));
    std::vector<FailingCase> failing;
    for (std::size_t l = 0; l < mine.laws.size(); ++l)
      for (const Failure& f : mine.laws[l].failures) failing.push_back({result_.laws[l], f.line});
    // The small ones behind the others: they say less, but some faults are found in large cases alone.
    for (std::size_t l = 0; l < mine.laws.size(); ++l)
      for (const Failure& f : mine.laws[l].failures)
        if (!f.shrunk.empty() && f.shrunk != f.line) failing.push_back({result_.laws[l], f.shrunk});
    if (failing.empty()) return;
    progress_.note("comparing with known faults");
    mine.lineup = line_up(mine.implementation, failing, {options_.lineup, options_.folder, options_.workers});
  }

  // Corpus lines first, then generated cases law by law in turn.
  void plan(std::uint32_t implementation) {
    queue_.clear();
    for (const CorpusEntry& e : corpus_)
      for (std::uint32_t l = 0; l < result_.laws.size(); ++l)
        if (result_.laws[l]->applies(e.value)) queue_.push_back({implementation, l, e.line});
    int weights = 0;
    for (const Law* law : result_.laws) weights += law->weight;
    const int generated = options_.cases.value_or(options_.seconds ? INT32_MAX : options_.suite->cases);
    left_.clear();
    for (const Law* law : result_.laws)
      left_.push_back(static_cast<std::int64_t>(generated) * law->weight / std::max(weights, 1));
    made_.assign(result_.laws.size(), 0);
    turn_ = 0;
    planned_ = static_cast<std::int64_t>(queue_.size());
    for (const std::int64_t n : left_) planned_ += n;
  }

  std::optional<Task> next(std::uint32_t implementation, ImplementationResult& mine) {
    if (options_.seconds && seconds_since(start_) > *options_.seconds) return std::nullopt;
    while (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      const std::string_view why = given_up(task.law);
      if (why.empty()) return task;
      LawResult& r = mine.laws[task.law];
      ++r.counts[static_cast<std::size_t>(Status::skipped)];
      ++r.notes[std::string(why)];
    }
    // A law's turn comes as often as its weight says.
    for (std::size_t tried = 0; tried < left_.size(); ++tried) {
      const std::size_t l = turn_;
      const Law& law = *result_.laws[l];
      if (left_[l] <= 0 || skip_law(mine, l)) {
        left_[l] = 0;
        turn_ = (turn_ + 1) % left_.size();
        continue;
      }
      const std::int64_t k = made_[l]++;
      --left_[l];
      if (made_[l] % law.weight == 0) turn_ = (turn_ + 1) % left_.size();
      // Sizes run through 0..top in strides of a prime, so that a short run has small and large ones.
      const int size = static_cast<int>(k * 37 % (options_.suite->size + 1));
      return Task{implementation, static_cast<std::uint32_t>(l), generated_line(law, options_.seed, k, size)};
    }
    return std::nullopt;
  }

  // Why no more cases of the law are tried; empty while they are.
  std::string_view given_up(std::size_t law) const {
    if (fatal_[law] >= kFatalCasesPerLaw) return kGivenUp;
    return hangs_ >= kMostHangs ? kEnded : std::string_view{};
  }

  // Laws that the implementation cannot be judged on are recorded once, not case by case.
  bool skip_law(ImplementationResult& mine, std::size_t l) {
    const std::uint64_t missing = result_.laws[l]->needs & ~mine.implementation->table().capabilities;
    const std::string_view why = given_up(l);
    if (missing == 0 && why.empty()) return false;
    if (left_[l] <= 0) return true;
    LawResult& r = mine.laws[l];
    const std::int64_t count =
        options_.seconds ? 1 : left_[l];  // with a time limit nobody knows how many it were
    r.counts[static_cast<std::size_t>(Status::skipped)] += count;
    r.notes[missing ? fmt::format("skipped: {} has no capability {}", mine.implementation->name(),
                                  capability_names(missing))
                    : std::string(why)] += count;
    return true;
  }

  void record(ImplementationResult& mine, const Task& task, const Judgement& j) {
    LawResult& r = mine.laws[task.law];
    ++r.counts[static_cast<std::size_t>(j.status)];
    r.elements += j.elements;
    r.unjudged += j.unjudged;
    if (j.status == Status::crashed) ++fatal_[task.law];
    if (j.status == Status::timed_out) fatal_[task.law] += ++hangs_ > kHangs ? kFatalCasesPerLaw : 1;
    if (j.bound_use > r.bound_use) r.bound_use = j.bound_use, r.bound_stage = j.bound_stage;
    for (std::size_t k = 0; k < r.kinds_seen.size(); ++k) {
      r.kinds_seen[k] += j.kinds_seen >> k & 1u;
      r.kinds_vacuous[k] += j.kinds_vacuous >> k & 1u;
    }
    if (is_bad(j.status)) {
      r.failures.push_back({task.line, j, "", {}});
      save(mine, task, j);
    } else if (j.status != Status::passed) {
      std::string name(status_name(j.status));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      ++r.notes[name + ": " + j.reason];
    }
  }

  // Every failing line goes to disk when it is found, in a form that `check --file` reads.
  void save(const ImplementationResult& mine, const Task& task, const Judgement& j) const {
    if (options_.folder.empty()) return;
    std::ofstream file(options_.folder + "/failures.cases", std::ios::app);
    file << fmt::format("# {} {} {}: {}\n{}\n", status_name(j.status), mine.implementation->argument(),
                        result_.laws[task.law]->id, j.reason, task.line);
  }

  void shrink(ImplementationResult& mine, std::uint32_t implementation, std::uint32_t law) {
    Failure& failure = mine.laws[law].failures.front();
    progress_.note(fmt::format("shrinking {}", result_.laws[law]->id));
    const Status wanted = failure.judgement.status;
    // A hang is not shrunk: every step would cost the time limit.
    if (wanted == Status::timed_out) return;
    const auto started = Clock::now();
    const auto parsed = parse_case(failure.line);
    if (!std::holds_alternative<Case>(parsed)) return;
    Judgement last;
    const auto fails = [&](const Case& c) {
      if (seconds_since(started) > kShrinkSeconds) return false;
      const Judgement j = workers_.run_one({implementation, law, print_case(c)});
      if (j.status != wanted) return false;
      last = j;
      return true;
    };
    const Case& original = std::get<Case>(parsed);
    if (!fails(original)) return;  // it did not repeat; the report says so
    failure.shrunk = print_case(shrink_case(original, fails, kShrinkBudget));
    failure.shrunk_judgement = last;
    if (!options_.folder.empty()) {
      std::ofstream file(options_.folder + "/failures.cases", std::ios::app);
      file << fmt::format("# shrunk, {}\n{}\n", result_.laws[law]->id, failure.shrunk);
    }
  }

  const std::vector<CorpusEntry>& corpus_;
  const RunOptions& options_;
  RunResult result_;
  Workers workers_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
  std::deque<Task> queue_;
  std::vector<std::int64_t> left_, made_;
  std::vector<int> fatal_;  // crashes and hangs of each law
  int hangs_ = 0;
  std::size_t turn_ = 0;
  std::int64_t planned_ = 0;
};

}  // namespace

std::int64_t LawResult::cases() const {
  std::int64_t n = 0;
  for (const std::int64_t c : counts) n += c;
  return n;
}

std::int64_t LawResult::bad() const {
  std::int64_t n = 0;
  for (int s = 0; s < kStatusCount; ++s)
    if (is_bad(static_cast<Status>(s))) n += counts[static_cast<std::size_t>(s)];
  return n;
}

void Service::count(const Law& law, Status status, std::int64_t cases) {
  // Shards and expansions are made without a layer.
  if (law.generator <= Generator::layout_valid || law.generator == Generator::shard) return;
  if (status == Status::unsupported) refused += cases;
  if (status == Status::passed || is_bad(status)) judged += cases;
}

bool ImplementationResult::served_nothing(const std::vector<const Law*>& of) const {
  Service service;
  for (std::size_t l = 0; l < of.size(); ++l)
    for (int s = 0; s < kStatusCount; ++s)
      service.count(*of[l], static_cast<Status>(s), laws[l].counts[static_cast<std::size_t>(s)]);
  return service.nothing();
}

bool RunResult::conforming() const {
  for (const auto& i : implementations) {
    if (i.served_nothing(laws)) return false;
    for (const LawResult& r : i.laws)
      if (r.bad() > 0) return false;
  }
  return true;
}

std::int64_t RunResult::cases() const {
  std::int64_t n = 0;
  for (const auto& i : implementations)
    for (const LawResult& r : i.laws) n += r.cases();
  return n;
}

std::string serves_nothing(const std::shared_ptr<const Implementation>& implementation,
                           const std::string& folder) {
  RunOptions options;
  options.suite = find_suite("smoke");
  options.laws = {find_law("lattice-is-exact"), find_law("dense-is-bounded")};
  options.cases = 100;
  // A few seconds say enough: these cases take milliseconds.
  options.seconds = 5;
  options.timeout_seconds = 5;
  options.folder = folder;
  options.lineup = LineupMode::off;
  const RunResult result = run_suite({implementation}, {}, options);
  const ImplementationResult& mine = result.implementations.front();
  std::int64_t ended = 0, hung = 0;
  for (const LawResult& r : mine.laws) {
    hung += r.counts[static_cast<std::size_t>(Status::timed_out)];
    ended += r.counts[static_cast<std::size_t>(Status::passed)] + r.bad();
  }
  ended -= hung;
  if (hung > 0 && ended == 0)
    return fmt::format("{}: none of its {} cases ended within {} s; ./sinktrap run shows where",
                       implementation->argument(), hung, options.timeout_seconds);
  if (!mine.served_nothing(options.laws)) return "";
  std::string why;
  for (const LawResult& r : mine.laws)
    for (const auto& [note, times] : r.notes) why = note;
  return fmt::format("{}: it refused every layer of {} cases ({})", implementation->argument(),
                     result.cases(), why);
}

std::string generated_line(const Law& law, std::uint64_t seed, std::int64_t k, int size) {
  const std::uint64_t mixed =
      case_seed(seed, static_cast<std::uint64_t>(&law - &laws()[0]), static_cast<std::uint64_t>(k));
  return print_case(generate_case(law.generator, mixed, size));
}

Judgement judge_line(const Law& law, const std::string& line, const Implementation& implementation) {
  auto parsed = parse_case(line);
  if (const auto* error = std::get_if<CaseError>(&parsed)) {
    Judgement j;
    j.status = Status::skipped;
    j.reason = fmt::format("column {}: {}", error->column, error->what);
    return j;
  }
  return judge_case(law, std::get<Case>(parsed), implementation);
}

RunResult run_suite(const std::vector<std::shared_ptr<const Implementation>>& implementations,
                    const std::vector<CorpusEntry>& corpus, const RunOptions& options) {
  return Runner(implementations, corpus, options).run();
}

}  // namespace sinktrap
