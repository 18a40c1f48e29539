// The command: its arguments, the phases in order, the files that it leaves.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include "gate/commands.hpp"
#include "gate/corpus.hpp"
#include "gate/nightly/files.hpp"
#include "gate/nightly/report.hpp"
#include "gate/run.hpp"
#include "gate/terminal.hpp"
#include "judge/implementation.hpp"

namespace sinktrap {
namespace nightly {
namespace {

namespace fs = std::filesystem;

// One night at a time in a folder. The lock goes with the process, however it ends.
class Lock {
 public:
  // Throws std::runtime_error when another process holds it.
  explicit Lock(const fs::path& path) : file_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (file_ < 0)
      throw std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
    // Children of a night that was killed a moment ago may hold it for that moment.
    const auto start = Clock::now();
    while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (Clock::now() - start > std::chrono::seconds(3))
        throw std::runtime_error(fmt::format(
            "{}: another night runs in this folder; wait for it or use another --out", path.string()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

class Night {
 public:
  Night(const NightlyArguments& a, double budget, int jobs, std::vector<Target> targets)
      : a_(a),
        folders_{a.out},
        targets_(std::move(targets)),
        lock_(made(folders_.out) / "lock"),
        store_(folders_.findings()),
        queue_(guard_, store_, targets_, a.implementations, folders_),
        progress_(true) {
    watch_signals();
    report_.plan = make_plan(budget, jobs, targets_.size());
    report_.started = utc_now();
    report_.spent.assign(kPhases, 0);
    report_.implementations = a.implementations;
    for (const Target& t : targets_) {
      report_.targets.emplace_back();
      report_.targets.back().name = t.name;
    }
    for (const fs::path& folder : {folders_.logs(), folders_.work()}) make_folder(folder);
    read_past();
  }

  int run() {
    collect_leftovers(folders_, store_, targets_);
    queue_.on_new = [this](const Finding& f) { announce(f); };
    Context c{guard_,
              folders_,
              targets_,
              a_.implementations,
              store_,
              queue_,
              report_.targets,
              std::random_device{}(),
              [this] { tick(); }};
    const CheckContext checks{guard_, [this] { tick(); }};
    const int jobs = report_.plan.jobs;
    phase(Phase::recheck, [&](double left) { run_recheck(c, left); });
    phase(Phase::fuzzing, [&](double left) { run_fuzzing(c, left, jobs); });
    phase(Phase::triage, [&](double left) { drain(left); });
    queue_.stop();
    phase(Phase::merging, [&](double left) { run_merging(c, left, jobs); });
    phase(Phase::tests,
          [&](double left) { report_.tests = run_tests(checks, a_.build, left, jobs, state_.tests); });
    phase(Phase::kill_matrix, [&](double left) {
      // Every night begins elsewhere in the list.
      const auto from = static_cast<std::size_t>(report_.night) * 47;
      report_.matrix = run_matrix(checks, own_program(), left, jobs, folders_.work().string(),
                                  static_cast<std::uint64_t>(report_.night), from);
    });
    phase(Phase::mutation, [&](double left) {
      const double share = report_.plan.step(Phase::mutation).seconds;
      report_.mutation = run_mutation(checks, a_.mutate, a_.build, share > 0 ? left : 0,
                                      (folders_.out / "mutation.md").string());
    });
    if (report_.tests.tests.empty() && report_.tests.problem.empty())
      report_.tests.problem = "not run: interrupted";
    if (report_.mutation.score.empty() && report_.mutation.problem.empty())
      report_.mutation.problem = "not run: interrupted";
    return finish();
  }

 private:
  static const fs::path& made(const fs::path& folder) {
    make_folder(folder);
    return folder;
  }
  static std::string own_program() { return fs::read_symlink("/proc/self/exe").string(); }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  fs::path state_path() const { return folders_.out / "state"; }

  void read_past() {
    report_.problems = store_.problems();
    if (const auto text = read_whole(state_path())) {
      if (!parse_state(*text, state_)) {
        std::error_code error;
        fs::rename(state_path(), folders_.out / "state.damaged", error);
        report_.problems.push_back(
            fmt::format("{}: not a complete state; it is state.damaged now, and this night "
                        "begins without the times of the tests",
                        state_path().string()));
      } else if (!state_.last.finished) {
        report_.resumed = state_.last;
      }
    }
    report_.night = state_.last.night + 1;
    if (const auto json = read_whole(folders_.out / "report.json")) report_.before = read_before(*json);
  }

  template <class Work>
  void phase(Phase p, Work&& work) {
    if (caught_signal() != 0) return;
    phase_ = p;
    save_state();
    const double begin = elapsed();
    work(report_.plan.step(p).end() - begin);
    report_.spent[static_cast<std::size_t>(p)] = elapsed() - begin;
  }

  void drain(double seconds) {
    const double end = elapsed() + seconds;
    queue_.attend();
    while (!queue_.idle() && elapsed() < end && caught_signal() == 0) {
      if (queue_.process() != nullptr) wait_for({queue_.process()}, end - elapsed());
      queue_.attend();
      tick();
    }
  }

  void announce(const Finding& f) {
    progress_.clear();
    fmt::print(stderr, "sinktrap: new finding: {}: {}\n  {}\n", f.law.empty() ? f.kind : f.law, f.reason,
               f.repeat);
  }

  void tick() {
    constexpr double kOften = 2;  // seconds of a night that SIGKILL takes out of the record
    if (elapsed() - saved_ > kOften) save_state();
    std::int64_t executions = 0;
    for (const TargetResult& t : report_.targets) executions += t.executions;
    if (elapsed() - shown_ < 0.5) return;
    shown_ = elapsed();
    progress_.note(fmt::format("{}: {:.0f} of {:.0f} s, {} executions, {} findings", phase_name(phase_),
                               elapsed(), report_.plan.seconds, executions,
                               store_.all().size() + store_.raw().size()));
  }

  void save_state(bool finished = false) {
    saved_ = elapsed();
    NightRecord& n = state_.last;
    n.night = report_.night;
    n.started = report_.started;
    n.budget = report_.plan.seconds;
    n.elapsed = elapsed();
    n.phase = phase_name(phase_);
    n.finished = finished;
    n.targets.clear();
    for (const TargetResult& t : report_.targets)
      n.targets.push_back({t.name, t.seconds, t.executions, t.coverage, t.found});
    for (const TestResult& t : report_.tests.tests) {
      if (t.outcome == Outcome::not_run) continue;
      state_.tests[t.name] = {t.seconds, t.outcome, report_.night};
    }
    write_whole(state_path(), state_text(state_));
  }

  // The report first; only what it says counts as reported.
  int finish() {
    phase_ = Phase::report;
    const double begin = elapsed();
    if (caught_signal() != 0)
      report_.interrupted = fmt::format("signal {} ({})", caught_signal(), strsignal(caught_signal()));
    // What the last runs left when a signal ended them.
    collect_leftovers(folders_, store_, targets_);
    for (const auto& [key, f] : store_.all()) report_.findings.push_back(f);
    std::stable_sort(report_.findings.begin(), report_.findings.end(),
                     [](const Finding& x, const Finding& y) { return x.standing < y.standing; });
    report_.waiting = static_cast<std::int64_t>(store_.raw().size());
    if (store_.full())
      report_.problems.emplace_back(
          "fuzzing stopped: as many different findings as a night may keep (Bounds::findings)");
    report_.ended = utc_now();
    report_.seconds = elapsed();
    report_.spent[static_cast<std::size_t>(Phase::report)] = elapsed() - begin;
    progress_.clear();
    std::error_code error;
    if (report_.before)
      fs::rename(folders_.out / "report.json", folders_.out / "report.previous.json", error);
    write_whole(folders_.out / "report.txt", night_text(report_));
    write_whole(folders_.out / "report.html", night_html(report_));
    write_whole(folders_.out / "report.json", night_json(report_));
    for (Finding f : report_.findings) {
      f.reported = true;
      store_.update(f);
      if (f.standing == Standing::fixed) store_.retire(f);
    }
    save_state(report_.interrupted.empty());
    fs::remove_all(folders_.work(), error);
    fmt::print("{}reports: {}\n", night_text(report_), (folders_.out / "report.{txt,json,html}").string());
    std::fflush(stdout);
    return report_.bad() ? 1 : 0;
  }

  const NightlyArguments& a_;
  Folders folders_;
  std::vector<Target> targets_;
  Lock lock_;
  Guard guard_;
  FindingStore store_;
  TriageQueue queue_;
  Progress progress_;
  State state_;
  Report report_;
  Phase phase_ = Phase::recheck;
  Clock::time_point start_ = Clock::now();
  double saved_ = 0, shown_ = 0;
};

}  // namespace
}  // namespace nightly

int nightly_command(const NightlyArguments& given) {
  using namespace nightly;
  NightlyArguments a = given;
  if (a.hours && a.seconds) return bad_input("--hours and --seconds: give one of them");
  const double budget = a.seconds ? *a.seconds : a.hours.value_or(kDefaultNightHours) * 3600;
  if (!(budget >= kLeastBudget))
    return bad_input(fmt::format("nightly: {} s found, at least {} s expected; raise --seconds or --hours",
                                 budget, kLeastBudget));
  std::vector<std::shared_ptr<const Implementation>> implementations;
  for (const std::string& name : a.implementations) {
    if (name.find(';') != std::string::npos)
      return bad_input(fmt::format("--impl {}: ';' separates implementations here; rename the file", name));
    const auto opened = Implementation::open(name);
    if (const auto* error = std::get_if<std::string>(&opened)) return bad_input(*error);
    implementations.push_back(std::get<std::shared_ptr<const Implementation>>(opened));
  }
  const std::string sources = SINKTRAP_SOURCE_FOLDER;
  if (a.out.empty()) a.out = sources + "/build/nightly";
  if (a.targets.empty()) a.targets = sources + "/build/fuzz/fuzz/targets.txt";
  if (a.build.empty()) a.build = SINKTRAP_BUILD_FOLDER;
  if (a.mutate.empty()) a.mutate = sources + "/tools/mutate";
  const int jobs = a.jobs > 0 ? a.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  auto targets = read_targets(a.targets, corpus_folder(), sources + "/fuzz/sinktrap.dict");
  if (a.dry_run) {
    // Before the targets are built it says how the time would be shared, without them.
    std::vector<std::string> names;
    if (const auto* list = std::get_if<std::vector<Target>>(&targets))
      for (const Target& t : *list) names.push_back(t.name);
    fmt::print("{}", plan_text(make_plan(budget, jobs, std::max<std::size_t>(names.size(), 1)), names));
    return 0;
  }
  if (const auto* error = std::get_if<std::string>(&targets)) return bad_input(*error);
  int code = 2;
  try {
    for (const auto& implementation : implementations)
      if (const std::string fault = serves_nothing(implementation, a.out); !fault.empty())
        return bad_input("--impl " + fault);
    code = Night(a, budget, jobs, std::get<std::vector<Target>>(std::move(targets))).run();
  } catch (const std::runtime_error& e) {
    return bad_input(e.what());
  }
  if (code == 0 && caught_signal() != 0) {
    // Nothing was found, but the night was not a whole one: whoever sent the signal sees it in the exit code.
    std::signal(caught_signal(), SIG_DFL);
    std::raise(caught_signal());
  }
  return code;
}

}  // namespace sinktrap
