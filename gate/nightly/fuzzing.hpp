// The phases that run fuzz targets: fuzzing, triage of what comes out, and merging.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gate/nightly/findings.hpp"
#include "gate/nightly/libfuzzer_log.hpp"
#include "gate/nightly/plan.hpp"
#include "gate/nightly/process.hpp"
#include "gate/nightly/targets.hpp"
#include "gate/nightly/triage.hpp"

namespace sinktrap::nightly {

// The folder of a night: --out.
struct Folders {
  std::filesystem::path out;
  std::filesystem::path corpus(const std::string& target) const { return out / "corpus" / target; }
  std::filesystem::path findings() const { return out / "findings"; }
  std::filesystem::path logs() const { return out / "logs"; }
  std::filesystem::path work() const { return out / "work"; }
  // Where a job's run of a target leaves what it finds.
  std::filesystem::path lane(const std::string& target, int job) const {
    return work() / "lanes" / (target + "." + std::to_string(job));
  }
};

// What a night knows of one target.
struct TargetResult {
  std::string name;
  double seconds = 0;  // of its runs, together
  std::int64_t executions = 0, runs = 0, found = 0;
  std::int64_t coverage = 0, features = 0;
  Curve curve;
  std::int64_t corpus_before = 0, corpus_after = 0;  // files
  std::string merge;                                 // "", or why it was not merged
  std::string given_up;                              // "", or why it was left before its time
};

// Triage in a child process, one at a time, of what waits in the store.
class TriageQueue {
 public:
  TriageQueue(const Guard& guard, FindingStore& store, const std::vector<Target>& targets,
              std::vector<std::string> implementations, Folders folders);
  // Starts the next one when none runs, takes in what is ready.
  void attend();
  bool idle() const { return running_ == nullptr && !next(); }
  Process* process() const { return running_.get(); }
  void stop();  // what runs now stays raw
  std::int64_t left() const;
  // Called with every new finding when it is on the disk.
  std::function<void(const Finding&)> on_new;

 private:
  const Finding* next() const;
  TriageOptions options_for(const std::string& target) const;
  void take();
  const Guard& guard_;
  FindingStore& store_;
  const std::vector<Target>& targets_;
  std::vector<std::string> implementations_;
  Folders folders_;
  std::unique_ptr<Process> running_;
  Finding current_;
  std::vector<std::string> failed_;  // ids whose triage did not end: they stay raw for the next night
};

struct Context {
  const Guard& guard;
  const Folders& folders;
  const std::vector<Target>& targets;
  const std::vector<std::string>& implementations;
  FindingStore& store;
  TriageQueue& queue;
  std::vector<TargetResult>& results;  // by target
  std::uint64_t seed = 1;
  std::function<void()> tick = [] {};  // often: for the progress line and the state
};

// Findings and artifacts that lie in the folders of lanes go into the store; how many were new to it.
std::int64_t collect(const Folders& folders, FindingStore& store, const Target& target, int job,
                     const RunLog* log);
// Those of processes that are gone.
void collect_leftovers(const Folders& folders, FindingStore& store, const std::vector<Target>& targets);

// Runs the pieces of a plan for `seconds`, by job. Ends in time, or on a signal.
void run_fuzzing(Context& context, double seconds, int jobs);
// Known findings, again: within `seconds`.
void run_recheck(Context& context, double seconds);
// Minimises every corpus; a target that does not fit into `seconds` keeps its corpus as it is.
void run_merging(Context& context, double seconds, int jobs);

}  // namespace sinktrap::nightly
