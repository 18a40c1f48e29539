// `mutants`: the kill matrix. Every wrong implementation is judged on generated cases, the laws taking turns
// one case each, until one of them refuses it; the unmutated code beside them has to pass, and so have the
// equivalent mutants.
#include "mutants/mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "gate/commands.hpp"
#include "gate/corpus.hpp"
#include "gate/report.hpp"
#include "gate/terminal.hpp"
#include "judge/worker.hpp"
#include "mutants/kernel_mutants.hpp"
#include "properties/shrink.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

// Cases that the unmutated code and the equivalent mutants have to pass: ten times the cases that most
// mutants need.
constexpr std::int64_t kHonestCases = 300;
// Generated cases for the kernels and their faults, which take a hundred times as long under the race
// runtime; every fault that a generated case shows is refused by the 38th. corpus/threads.cases has a case
// for the others.
constexpr std::int64_t kKernelCases = 50;
// A case takes a few milliseconds, on a kernel under the race runtime a few seconds (5.5 at most on an idle
// machine); what takes this long hangs.
constexpr double kTimeoutSeconds = 20;
// A case of gigabytes takes 20 seconds here; what takes this long hangs.
constexpr double kLargeTimeoutSeconds = 300;
// The law that is judged on cases of gigabytes: it writes no slot without an adapter.
constexpr std::string_view kLargeLaw = "lattice-is-exact";
// The law of corpus/threads.cases.
constexpr std::string_view kThreadsLaw = "repeats-bitwise";
// Judgements and seconds spent on making one killing case small: 150 mutants stay below three minutes.
constexpr int kShrinkBudget = 250;
constexpr double kShrinkSeconds = 1;

// Plain C first, then the kernels: what an index of a row counts.
std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all = mutants();
  all.insert(all.end(), kernel_mutants().begin(), kernel_mutants().end());
  return all;
}
std::shared_ptr<const Implementation> select_any(int index) {
  const int plain = static_cast<int>(mutants().size());
  return index < plain ? select_mutant(index) : select_kernel_mutant(index - plain);
}

struct Row {
  Row(int index_, std::string name_, bool honest_) : index(index_), name(std::move(name_)), honest(honest_) {}
  int index;  // into all_mutants()
  std::string name;
  bool honest;  // has to survive
  bool unmutated = false;
  bool large = false;      // judged on the large cases
  bool kernel = false;     // a kernel, or a fault of threads in one
  std::string skipped;     // why a large case was not judged
  std::int64_t cases = 0;  // judged, the killing one included
  double milliseconds = 0;
  std::string killed_by, line, smallest, reason;  // killed_by: the law, or empty
  Status status = Status::passed;
  std::int64_t handed = 0;  // cases given to workers
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Matrix {
 public:
  // `large`, `threads`: the cases for mutants that no other case shows; empty where there is no such mutant.
  Matrix(const MutantsArguments& a, const std::vector<int>& chosen, const std::vector<CorpusEntry>& large,
         const std::vector<CorpusEntry>& threads)
      : a_(a),
        workers_(judge,
                 {a.jobs > 0 ? a.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
                  large.empty() ? kTimeoutSeconds : kLargeTimeoutSeconds, a.folder}),
        progress_(true) {
    const auto under = [](std::string_view law, const std::vector<CorpusEntry>& entries) {
      std::vector<Task> tasks;
      tasks.reserve(entries.size());
      for (const CorpusEntry& e : entries)
        tasks.push_back({0, static_cast<std::uint32_t>(find_law(law) - &laws()[0]), e.line});
      return tasks;
    };
    large_ = under(kLargeLaw, large);
    threads_ = under(kThreadsLaw, threads);
    rows_.emplace_back(kUnmutated, "(unmutated)", true);
    rows_.back().unmutated = true;
    for (const int index : chosen) {
      const Mutant& m = all_[static_cast<std::size_t>(index)];
      rows_.emplace_back(index, std::string(m.name), m.honest());
      rows_.back().unmutated = m.kind == "unmutated";
      rows_.back().large = m.large();
      rows_.back().kernel = index >= static_cast<int>(mutants().size());
      // What is refused before a single case.
      const auto mutant = select_any(index);
      rows_.back().reason = table_fault(&mutant->table());
      if (!rows_.back().reason.empty()) {
        rows_.back().killed_by = "interface";
        rows_.back().status = Status::failed;
      }
    }
  }

  std::vector<Row> run() {
    workers_.run([this] { return next(); }, [this](const Task& t, const Judgement& j) { record(t, j); });
    for (Row& row : rows_)
      if (!row.line.empty()) shrink(row);
    progress_.clear();
    return std::move(rows_);
  }
  double seconds() const { return seconds_since(start_); }

 private:
  // In the worker: the time of the judgement travels as the first detail, in microseconds.
  static Judgement judge(const Task& t) {
    const auto mutant = select_any(static_cast<int>(t.implementation) - 1);
    const auto start = Clock::now();
    Judgement j = judge_line(laws()[t.law], t.line, *mutant);
    j.details.insert(j.details.begin(), fmt::format("{:.0f}", seconds_since(start) * 1e6));
    return j;
  }

  // Case k of the stream: the laws in turn, sizes in strides of a prime as in `run`, but not from 0.
  const Task& stream(std::int64_t k) {
    const auto count = static_cast<std::int64_t>(laws().size());
    while (static_cast<std::int64_t>(stream_.size()) <= k) {
      const auto at = static_cast<std::int64_t>(stream_.size());
      const std::int64_t l = at % count, round = at / count;
      const int size = static_cast<int>((round + 1) * 37 % 101);
      stream_.push_back({0, static_cast<std::uint32_t>(l),
                         generated_line(laws()[static_cast<std::size_t>(l)], a_.seed, round, size)});
    }
    return stream_[static_cast<std::size_t>(k)];
  }

  // Large mutants get the large cases alone, and so does the unmutated code after its generated ones.
  std::int64_t generated_of(const Row& row) const {
    if (row.large) return 0;
    const std::int64_t most = row.kernel ? kKernelCases : row.honest ? kHonestCases : a_.cases;
    return std::min<std::int64_t>(most, a_.cases);
  }
  const std::vector<Task>& others_of(const Row& row) const {
    static const std::vector<Task> none;
    return row.kernel ? threads_ : row.large || row.index == kUnmutated ? large_ : none;
  }
  std::int64_t most_of(const Row& row) const {
    return generated_of(row) + static_cast<std::int64_t>(others_of(row).size());
  }
  const Task& task_of(const Row& row, std::int64_t k) {
    const std::int64_t generated = generated_of(row);
    return k < generated ? stream(k) : others_of(row)[static_cast<std::size_t>(k - generated)];
  }

  std::optional<Task> next() {
    for (std::size_t tried = 0; tried < rows_.size(); ++tried) {
      turn_ = (turn_ + 1) % rows_.size();
      Row& row = rows_[turn_];
      const std::int64_t most = most_of(row);
      if (!row.killed_by.empty() || row.handed >= most) continue;
      Task task = task_of(row, row.handed++);
      task.implementation = static_cast<std::uint32_t>(row.index + 1);
      return task;
    }
    return std::nullopt;
  }

  Row& row_of(const Task& t) {
    return *std::find_if(rows_.begin(), rows_.end(),
                         [&](const Row& r) { return r.index + 1 == static_cast<int>(t.implementation); });
  }

  void record(const Task& t, const Judgement& j) {
    Row& row = row_of(t);
    std::int64_t k = row.handed - 1;  // two workers may end in the other order
    while (task_of(row, k).line != t.line || task_of(row, k).law != t.law) --k;
    if (j.status == Status::skipped && k >= generated_of(row)) row.skipped = j.reason;
    if (row.killed_by.empty()) row.cases = std::max(row.cases, k + 1);
    row.milliseconds += j.status == Status::timed_out || j.status == Status::crashed || j.details.empty()
                            ? (j.status == Status::timed_out ? kTimeoutSeconds * 1e3 : 0)
                            : std::stod(j.details.front()) / 1e3;
    if (!is_bad(j.status) || (!row.killed_by.empty() && k + 1 >= row.cases)) return;
    row.cases = k + 1;
    row.killed_by = laws()[t.law].id;
    row.line = row.smallest = t.line;
    row.status = j.status;
    row.reason = j.reason;
    progress_.note(fmt::format("{} is refused by {}", row.name, row.killed_by));
  }

  void shrink(Row& row) {
    if (row.status == Status::timed_out) return;  // every step would cost the time limit
    if (row.large) return;                        // a smaller case is no large one
    const auto started = Clock::now();
    const auto law = static_cast<std::uint32_t>(find_law(row.killed_by) - &laws()[0]);
    const auto fails = [&](const Case& c) {
      if (seconds_since(started) > kShrinkSeconds) return false;
      const Judgement j = workers_.run_one({static_cast<std::uint32_t>(row.index + 1), law, print_case(c)});
      if (j.status == row.status) row.reason = j.reason;
      return j.status == row.status;
    };
    progress_.note("smaller cases for " + row.name);
    row.smallest = print_case(shrink_case(std::get<Case>(parse_case(row.line)), fails, kShrinkBudget));
  }

  const MutantsArguments& a_;
  const std::vector<Mutant> all_ = all_mutants();
  std::vector<Row> rows_;
  std::vector<Task> stream_, large_, threads_;
  std::size_t turn_ = 0;
  Workers workers_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

struct Summary {
  std::int64_t killed = 0, survived = 0, equivalent = 0, honest_refused = 0;
  double median = 0;  // cases to the kill
};

Summary summary_of(const std::vector<Row>& rows) {
  Summary s;
  std::vector<std::int64_t> cases;
  for (const Row& row : rows) {
    const bool killed = !row.killed_by.empty();
    s.honest_refused += row.honest && killed;
    s.equivalent += row.honest && !row.unmutated;
    if (row.honest) continue;
    s.killed += killed;
    s.survived += !killed && row.skipped.empty();
    if (killed) cases.push_back(row.cases);
  }
  std::sort(cases.begin(), cases.end());
  if (!cases.empty())
    s.median = static_cast<double>(cases[(cases.size() - 1) / 2] + cases[cases.size() / 2]) / 2;
  return s;
}

std::string outcome(const Row& row) {
  if (row.honest)
    return row.killed_by.empty() ? (row.unmutated ? "passed" : "equivalent") : "WRONGLY REFUSED";
  if (row.killed_by.empty() && !row.skipped.empty()) return "not judged";
  return row.killed_by.empty() ? "SURVIVED" : "killed";
}

std::string text_of(const std::vector<Row>& rows, const Summary& s, double seconds) {
  std::string text = fmt::format("{:<30} {:<11} {:<30} {:>6} {:>9}  {}\n", "mutant", "outcome", "by law",
                                 "cases", "ms", "smallest case");
  for (const Row& row : rows) {
    const std::string line = fmt::format("{:<30} {:<11} {:<30} {:>6} {:>9.1f}  {}", row.name, outcome(row),
                                         row.killed_by, row.cases, row.milliseconds, row.smallest);
    const bool bad = row.honest != row.killed_by.empty() && row.skipped.empty();
    if (!row.skipped.empty()) text += row.name + " has a case that was not judged: " + row.skipped + "\n";
    text += (bad ? paint(Status::failed, line) : line) + "\n";
    if (row.honest && bad) text += "  reason " + row.reason + "\n";
  }
  return text +
         fmt::format(
             "{} of {} mutants killed, {} survived, {} equivalent; median {} cases to the kill; {:.1f} s\n",
             s.killed, s.killed + s.survived, s.survived, s.equivalent, s.median, seconds);
}

std::string json_of(const std::vector<Row>& rows, const Summary& s, double seconds, std::uint64_t seed) {
  using Json = nlohmann::ordered_json;
  Json report;
  report["program"] = "sinktrap";
  report["seed"] = seed;
  report["seconds"] = seconds;
  report["killed"] = s.killed;
  report["survived"] = s.survived;
  report["equivalent"] = s.equivalent;
  report["median_cases"] = s.median;
  if (!kernel_mutants_missing().empty()) report["kernel_mutants_skipped"] = kernel_mutants_missing();
  report["mutants"] = Json::array();
  const std::vector<Mutant> all = all_mutants();
  for (const Row& row : rows) {
    Json m;
    m["mutant"] = row.name;
    if (row.index != kUnmutated) {
      const Mutant& mutant = all[static_cast<std::size_t>(row.index)];
      m["kind"] = mutant.kind;
      m["what"] = mutant.what;
      m["report"] = mutant.report;
    }
    m["outcome"] = outcome(row);
    m["killed_by"] = row.killed_by.empty() ? Json(nullptr) : Json(row.killed_by);
    m["cases"] = row.cases;
    m["milliseconds"] = row.milliseconds;
    m["case"] = row.line;
    m["smallest_case"] = row.smallest;
    m["reason"] = row.killed_by.empty() ? row.skipped : row.reason;
    report["mutants"].push_back(std::move(m));
  }
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int mutants_command(const MutantsArguments& a) {
  std::vector<int> chosen;
  const std::vector<Mutant> all = all_mutants();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (a.names.empty() ? !all[i].large()
                        : std::find(a.names.begin(), a.names.end(), all[i].name) != a.names.end())
      chosen.push_back(static_cast<int>(i));
  for (const std::string& name : a.names)
    if (std::none_of(all.begin(), all.end(), [&](const Mutant& m) { return m.name == name; }))
      return bad_input(
          fmt::format("mutants {}: no mutant of that name; `sinktrap list mutants` shows them", name));
  const auto any = [&](auto has) {
    return std::any_of(chosen.begin(), chosen.end(), [&](int i) { return has(i); });
  };
  std::variant<std::vector<CorpusEntry>, std::string> large, threads;
  if (any([&](int i) { return all[static_cast<std::size_t>(i)].large(); }))
    large = read_case_file(corpus_folder() + "/large.cases");
  if (any([](int i) { return i >= static_cast<int>(mutants().size()); }))
    threads = read_case_file(corpus_folder() + "/threads.cases");
  for (const auto* read : {&large, &threads})
    if (const auto* error = std::get_if<std::string>(read)) return bad_input(*error);
  try {
    Matrix matrix(a, chosen, std::get<std::vector<CorpusEntry>>(large),
                  std::get<std::vector<CorpusEntry>>(threads));
    const std::vector<Row> rows = matrix.run();
    const Summary s = summary_of(rows);
    if (a.json != "-") fmt::print("{}", text_of(rows, s, matrix.seconds()));
    if (a.json != "-" && !kernel_mutants_missing().empty())
      fmt::print("mutants of the kernels skipped: {}\n", kernel_mutants_missing());
    if (!a.json.empty() && !write_report(a.json, json_of(rows, s, matrix.seconds(), a.seed))) return 2;
    return s.survived == 0 && s.honest_refused == 0 ? 0 : 1;
  } catch (const std::runtime_error& e) {
    return bad_input(e.what());
  }
}

}  // namespace sinktrap
