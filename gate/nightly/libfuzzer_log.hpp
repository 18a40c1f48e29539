// What libFuzzer writes on standard error: progress lines, the end of a run, and curves made of them.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinktrap::nightly {

// "#123 NEW cov: 12 ft: 34 corp: 5/67b ... exec/s: 89 rss: 30Mb"
struct ProgressLine {
  std::int64_t executions = 0;
  std::string event;  // INITED, NEW, REDUCE, RELOAD, pulse, DONE
  std::int64_t coverage = 0, features = 0, corpus = 0, per_second = 0;
};
std::optional<ProgressLine> parse_progress(std::string_view line);

// One run of a target, fed with its lines.
class RunLog {
 public:
  void add(std::string_view line);

  std::int64_t executions() const { return executions_; }  // the last known number
  const ProgressLine& last() const { return last_; }
  bool initialised() const { return initialised_; }  // every seed was run
  // "AddressSanitizer: heap-buffer-overflow judge/x.cpp:12 in f"; empty when nothing was reported.
  const std::string& summary() const { return summary_; }
  // The innermost function of the reported stack that belongs to neither libFuzzer, nor the sanitizers, nor
  // libc.
  const std::string& frame() const { return frame_; }
  const std::string& artifact() const { return artifact_; }  // path of the unit that libFuzzer wrote
  // What the target itself said last before it ended, for a reason.
  const std::string& said() const { return said_; }
  // First and last lines, within Bounds.
  std::string text() const;

 private:
  ProgressLine last_;
  std::int64_t executions_ = 0;
  bool initialised_ = false, ending_ = false;
  std::string summary_, frame_, artifact_, said_;
  std::string head_;
  std::deque<std::string> tail_;
  std::size_t tail_bytes_ = 0;
  std::int64_t cut_ = 0;  // lines left out between head and tail
};

struct Sample {
  double seconds = 0;  // since fuzzing began
  std::int64_t executions = 0, coverage = 0, features = 0, corpus = 0;
  double per_second = 0;
};

// Samples in order of time; halved when there are more than Bounds::curve_points.
class Curve {
 public:
  void add(const Sample& sample);
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::vector<Sample> samples_;
};

}  // namespace sinktrap::nightly
