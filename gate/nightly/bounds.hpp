// What a night may leave on the disk and keep in memory: every limit, and why it is that.
#pragma once
#include <cstdint>

namespace sinktrap::nightly {

struct Bounds {
  // Corpus of one target. The targets' inputs are lines and small files: 100,000 lines of 200 bytes are 20
  // MB, and a merge of as many takes about a minute. Above, the largest files go first: libFuzzer prefers the
  // small.
  static constexpr std::uint64_t corpus_bytes = 64u << 20;
  static constexpr std::uint64_t corpus_files = 50000;
  // The log of one target: its first lines (flags, seeds), its last ones (the report of a crash). A
  // sanitizer's report has 5 to 20 kB.
  static constexpr std::uint64_t log_head = 16u << 10, log_tail = 64u << 10;
  // A line without an end is cut here: what an implementation prints is no more than noise.
  static constexpr std::uint64_t log_line = 8u << 10;
  // Findings waiting for triage from one target, implementation and law: the first shows the fault, the
  // others may be other faults behind the same law; more of them are counted, not kept.
  static constexpr int raw_per_key = 5;
  // Different findings (by law and suspect, or by place of the crash). A night that finds so many has another
  // problem: fuzzing stops there, so that nothing found is ever thrown away.
  static constexpr int findings = 500;
  // One input; libFuzzer's own limit for inputs without -max_len is 4 kB to 1 MB.
  static constexpr std::uint64_t input_bytes = 1u << 20;
  // A target that ends this often in a row with findings that are known already is left for the night: its
  // next run would only find them again.
  static constexpr int repeats = 8;
  // One run of libFuzzer. A new one begins with another seed, a log of its own and a corpus within its
  // limits.
  static constexpr double run_seconds = 600;
  // Points of a curve; above, every second one goes. A page draws 600 pixels.
  static constexpr int curve_points = 300;
};

}  // namespace sinktrap::nightly
