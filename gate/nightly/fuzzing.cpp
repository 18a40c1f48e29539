#include "gate/nightly/fuzzing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gate/nightly/bounds.hpp"
#include "gate/nightly/files.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One job: it runs its pieces one after the other, and lends its hand to others when they are done.
struct Job {
  int index = 0;
  std::vector<Piece> pieces;
  std::size_t next = 0;
  std::unique_ptr<Process> process;
  std::size_t target = 0;
  double piece_end = 0, rate = 0;
  RunLog log;
  std::int64_t counted = 0;  // executions of this run that are in the result already
  Clock::time_point sampled;
  std::int64_t sampled_at = 0;
};

class Fuzzing {
 public:
  Fuzzing(Context& c, double seconds, int jobs) : c_(c), seconds_(seconds), repeats_(c.targets.size(), 0) {
    for (int j = 0; j < jobs; ++j) {
      jobs_.push_back(std::make_unique<Job>());
      jobs_.back()->index = j;
    }
    for (const Piece& p : make_pieces(seconds, jobs, c.targets.size()))
      jobs_[static_cast<std::size_t>(p.job)]->pieces.push_back(p);
    for (const Target& t : c.targets) copy_seeds(t);
  }

  void run() {
    while (true) {
      const bool over = now() >= seconds_ || caught_signal() != 0 || c_.store.full();
      bool busy = false;
      std::vector<Process*> waits;
      for (auto& job : jobs_) {
        attend(*job, over);
        if (!job->process) continue;
        busy = true;
        waits.push_back(job->process.get());
      }
      c_.queue.attend();
      if (c_.queue.process() != nullptr) waits.push_back(c_.queue.process());
      c_.tick();
      if (!busy && (over || !anyone_left())) return;
      wait_for(waits, seconds_ - now());
    }
  }

 private:
  double now() const { return seconds_since(start_); }
  fs::path seeds(const Target& t) const { return c_.folders.work() / "seeds" / t.name; }
  bool given_up(std::size_t t) const { return !c_.results[t].given_up.empty(); }
  bool anyone_left() const {
    for (std::size_t t = 0; t < c_.targets.size(); ++t)
      if (!given_up(t)) return true;
    return false;
  }

  // A copy, so that a seed that fails can be taken out of the way of the others.
  void copy_seeds(const Target& t) {
    std::error_code error;
    fs::remove_all(seeds(t), error);
    make_folder(seeds(t));
    make_folder(c_.folders.corpus(t.name));
    if (t.seeds.empty()) return;
    for (const auto& entry : fs::directory_iterator(t.seeds, error))
      if (entry.is_regular_file(error))
        fs::copy_file(entry.path(), seeds(t) / entry.path().filename(), fs::copy_options::overwrite_existing,
                      error);
  }

  void attend(Job& job, bool over) {
    if (job.process) {
      job.process->attend();
      sample(job);
      if (!job.process->ended()) {
        if (over || now() >= job.piece_end) job.process->stop(kGraceSeconds / 2);
        return;
      }
      finish(job);
    }
    if (over) return;
    // The piece that runs, then the next one, then a helping hand for the target that had the least.
    constexpr double kWorthIt = 0.3;  // the start of a process with sanitizers
    if (job.next > 0 && !given_up(job.target) && job.piece_end - now() > kWorthIt) {
      start(job);
      return;
    }
    while (job.next < job.pieces.size()) {
      const Piece& piece = job.pieces[job.next++];
      if (given_up(piece.target)) continue;
      job.target = piece.target;
      job.piece_end = std::min(seconds_, now() + piece.seconds);
      start(job);
      return;
    }
    if (seconds_ - now() < 2 * kWorthIt) return;
    std::size_t best = c_.targets.size();
    for (std::size_t t = 0; t < c_.targets.size(); ++t)
      if (!given_up(t) && (best == c_.targets.size() || c_.results[t].seconds < c_.results[best].seconds))
        best = t;
    if (best == c_.targets.size()) return;
    job.target = best;
    job.next = std::max<std::size_t>(job.next, 1);
    job.piece_end = std::min(seconds_, now() + Bounds::run_seconds);
    start(job);
  }

  void start(Job& job) {
    const Target& t = c_.targets[job.target];
    const fs::path lane = c_.folders.lane(t.name, job.index);
    make_folder(lane / "findings");
    make_folder(lane / "artifacts");
    trim_folder(c_.folders.corpus(t.name), Bounds::corpus_bytes, Bounds::corpus_files);
    Command command;
    command.arguments = {t.program.string()};
    command.arguments.insert(command.arguments.end(), t.flags.begin(), t.flags.end());
    // Another seed for every run, and libFuzzer takes 32 bits of it, 0 for a seed of its own.
    const auto seed = static_cast<std::uint32_t>(c_.seed * 1000003 + ++runs_) | 1u;
    const double left = std::min(job.piece_end - now(), Bounds::run_seconds);
    for (const std::string& a :
         {fmt::format("-seed={}", seed),
          fmt::format("-max_total_time={}", static_cast<int>(std::ceil(left)) + 1),
          std::string("-print_final_stats=1"), "-artifact_prefix=" + (lane / "artifacts").string() + "/",
          c_.folders.corpus(t.name).string(), seeds(t).string()})
      command.arguments.push_back(a);
    command.environment = target_environment(c_.implementations);
    command.environment.emplace_back("SINKTRAP_FUZZ_FINDINGS", (lane / "findings").string());
    job.log = RunLog();
    job.counted = job.sampled_at = 0;
    job.sampled = Clock::now();
    job.rate = 0;
    ++c_.results[job.target].runs;
    Job* self = &job;
    job.process =
        std::make_unique<Process>(c_.guard, command, [self](std::string_view line) { self->log.add(line); });
  }

  // At most two points a second; the speed is that since the last point.
  void sample(Job& job, bool last = false) {
    TargetResult& r = c_.results[job.target];
    r.executions += job.log.executions() - job.counted;
    job.counted = job.log.executions();
    r.coverage = std::max(r.coverage, job.log.last().coverage);
    r.features = std::max(r.features, job.log.last().features);
    const double since = seconds_since(job.sampled);
    const bool moved = job.log.executions() > job.sampled_at;
    if ((!last && since < std::max(0.5, seconds_ / (2 * Bounds::curve_points))) || !moved ||
        !job.log.initialised())
      return;
    job.rate = since > 0 ? static_cast<double>(job.log.executions() - job.sampled_at) / since : 0;
    job.sampled = Clock::now();
    job.sampled_at = job.log.executions();
    double rate = 0;
    for (const auto& other : jobs_)
      if (other->process && other->target == job.target) rate += other->rate;
    r.curve.add({now(), r.executions, r.coverage, r.features, job.log.last().corpus, rate});
  }

  void finish(Job& job) {
    sample(job, true);
    const Target& t = c_.targets[job.target];
    TargetResult& r = c_.results[job.target];
    r.seconds += job.process->seconds();
    const bool asked = job.process->stopped();
    const int code = job.process->code();
    job.process.reset();
    write_whole(c_.folders.logs() / fmt::format("{}.{}.log", t.name, job.index), job.log.text());
    fs::path artifact = job.log.artifact();
    if (!asked && code != 0 && artifact.empty()) artifact = last_input(t, job);
    if (!artifact.empty()) take_out(t, artifact, job.log.initialised());
    const std::int64_t fresh = collect(c_.folders, c_.store, t, job.index, &job.log);
    r.found += fresh;
    const bool early = !asked && code != 0;
    if (!early || fresh > 0) {
      repeats_[job.target] = 0;
      return;
    }
    if (artifact.empty() && job.log.executions() == 0)
      r.given_up = fmt::format("it ended with code {} before its first input: {}", code,
                               job.log.said().empty() ? job.log.summary() : job.log.said());
    else if (++repeats_[job.target] >= Bounds::repeats)
      r.given_up = fmt::format("{} runs in a row found only what is known", Bounds::repeats);
  }

  // A process that a signal ended without a word (the kernel does so when memory is short) has left the input
  // in a file of its own: it becomes an artifact like libFuzzer's. Empty when it had come to no input.
  fs::path last_input(const Target& t, const Job& job) const {
    const fs::path lane = c_.folders.lane(t.name, job.index);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(lane / "findings", error))
      if (entry.path().extension() == ".case") return {};
    auto bytes = read_whole(lane / "findings" / (t.name + ".current"));
    if (!bytes || bytes->empty() || (*bytes)[0] == 0) return {};
    bytes->resize(std::min(bytes->size(), bytes->find('\n')));
    fs::path artifact = lane / "artifacts" / ("crash-" + digest(*bytes));
    write_whole(artifact, *bytes);
    return artifact;
  }

  // An input that fails while the seeds are run would end every run there: it is taken out of the copy of the
  // seeds and out of the corpus. Its bytes or its line are with the finding.
  void take_out(const Target& t, const fs::path& artifact, bool initialised) {
    if (initialised) return;
    const auto bytes = read_whole(artifact);
    if (!bytes) return;
    std::error_code error;
    for (const fs::path& folder : {seeds(t), c_.folders.corpus(t.name)})
      for (const auto& entry : fs::directory_iterator(folder, error))
        if (entry.is_regular_file(error) && entry.file_size(error) == bytes->size() &&
            read_whole(entry.path()) == bytes)
          fs::remove(entry.path(), error);
  }

  Context& c_;
  double seconds_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<int> repeats_;
  std::uint64_t runs_ = 0;
  Clock::time_point start_ = Clock::now();
};

std::string kind_of(const fs::path& artifact) {
  const std::string name = artifact.filename().string();
  for (const char* kind : {"crash", "timeout", "oom", "leak"})
    if (name.compare(0, std::string(kind).size() + 1, std::string(kind) + "-") == 0) return kind;
  return "";  // slow-unit: a remark, not a finding
}

}  // namespace

std::int64_t collect(const Folders& folders, FindingStore& store, const Target& target, int job,
                     const RunLog* log) {
  const fs::path lane = folders.lane(target.name, job);
  std::error_code error;
  std::vector<fs::path> written, artifacts;
  for (const auto& entry : fs::directory_iterator(lane / "findings", error)) {
    // A file that never got its name, and the input that was executed last.
    if (entry.path().extension() == ".tmp" || entry.path().extension() == ".current")
      fs::remove(entry.path(), error);
    else
      written.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(lane / "artifacts", error))
    artifacts.push_back(entry.path());
  std::sort(written.begin(), written.end());
  std::sort(artifacts.begin(), artifacts.end());
  std::int64_t fresh = 0;
  // The unit that libFuzzer keeps when a target aborts on a finding is that finding.
  fs::path unit;
  for (const fs::path& path : artifacts)
    if (written.size() == 1 && kind_of(path) == "crash") unit = path;
  for (const fs::path& path : written) {
    Finding f = read_target_finding(read_whole(path, Bounds::input_bytes).value_or(""), target.name);
    const bool known = store.seen(f.raw_key()) > 0;
    // Without libFuzzer's unit the target's own file is what there is of bytes.
    const fs::path& bytes = f.kind == "law" || (f.kind == "bytes" && !unit.empty()) ? unit : path;
    store.add_raw(std::move(f), bytes);
    fs::remove(path, error);
    fresh += !known;
  }
  for (const fs::path& path : artifacts) {
    if (!fs::exists(path, error)) continue;
    const std::string kind = kind_of(path);
    if (kind.empty() || path == unit) {
      fs::remove(path, error);
      continue;
    }
    Finding f;
    f.target = target.name;
    f.kind = kind;
    f.first_seen = utc_now();
    if (log != nullptr && log->artifact().empty()) {
      f.reason = f.place = "its process ended without a report";
    } else if (log != nullptr) {
      f.reason = log->said().empty() ? log->summary() : log->said();
      f.place = fmt::format("{}{}{}", log->summary(), log->frame().empty() ? "" : " in ", log->frame());
    }
    const bool known = store.seen(f.raw_key()) > 0;
    store.add_raw(std::move(f), path);
    fresh += !known;
  }
  return fresh;
}

void collect_leftovers(const Folders& folders, FindingStore& store, const std::vector<Target>& targets) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folders.work() / "lanes", error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) continue;
    // A target that is no longer built has left something too.
    Target target;
    target.name = name.substr(0, dot);
    for (const Target& t : targets)
      if (t.name == target.name) target = t;
    collect(folders, store, target, std::atoi(name.c_str() + dot + 1), nullptr);
  }
}

void run_fuzzing(Context& context, double seconds, int jobs) {
  if (seconds > 0) Fuzzing(context, seconds, jobs).run();
}

}  // namespace sinktrap::nightly
