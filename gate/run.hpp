// The main job: cases of a suite, judged under every law, for every implementation.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gate/corpus.hpp"
#include "gate/lineup.hpp"
#include "properties/law.hpp"
#include "reference/power.hpp"

namespace sinktrap {

struct RunOptions {
  const Suite* suite = nullptr;
  std::vector<const Law*> laws;   // empty: all
  std::optional<int> cases;       // generated cases per implementation; absent: the suite's
  std::optional<double> seconds;  // stop handing out cases after this; absent: no limit
  std::uint64_t seed = 1;
  int workers = 2;
  double timeout_seconds = 60;  // the largest corpus case takes 4 s of processor time on the CPU executor
  std::string folder;           // where running and failing cases are written
  bool progress = false;
  LineupMode lineup = LineupMode::all;
};

struct Failure {
  std::string line;  // as it was found
  Judgement judgement;
  std::string shrunk;  // the smallest case that still fails, or empty when the failure did not repeat
  Judgement shrunk_judgement;
};

struct LawResult {
  std::array<std::int64_t, kStatusCount> counts{};
  std::int64_t elements = 0, unjudged = 0;
  double bound_use = 0;
  std::string bound_stage;  // where most of the bound comes from at that element
  // Judgements whose case could see a kind of fault, and those whose case could not though it has a place for
  // it.
  std::array<std::int64_t, reference::kFaultKinds> kinds_seen{}, kinds_vacuous{};
  std::vector<Failure> failures;              // every failing line; the first is shrunk
  std::map<std::string, std::int64_t> notes;  // reasons of skipped, unsupported and vacuous cases
  std::int64_t cases() const;
  std::int64_t bad() const;
};

// Whether an implementation serves anything, over the laws that create a layer: when none of their cases was
// judged and at least one was refused with `unsupported`, nothing is known of it, whatever the laws about
// validation say.
struct Service {
  std::int64_t judged = 0, refused = 0;
  void count(const Law& law, Status status, std::int64_t cases = 1);
  bool nothing() const { return judged == 0 && refused > 0; }
};

struct ImplementationResult {
  std::shared_ptr<const Implementation> implementation;
  std::vector<LawResult> laws;  // parallel to RunResult::laws
  Lineup lineup;                // of an implementation that failed
  bool served_nothing(const std::vector<const Law*>& of) const;
};

struct RunResult {
  std::uint64_t seed = 0;
  std::string suite;
  double seconds = 0;
  std::vector<const Law*> laws;
  std::vector<ImplementationResult> implementations;
  // No case failed, and every implementation was judged by more than its refusals.
  bool conforming() const;
  std::int64_t cases() const;
};

RunResult run_suite(const std::vector<std::shared_ptr<const Implementation>>& implementations,
                    const std::vector<CorpusEntry>& corpus, const RunOptions& options);

// Why fuzzing the implementation would judge nothing, or empty: it refused every layer of a hundred cases of
// the smoke suite, or of those that ten seconds allow, or none of them ended. The folder is that of
// RunOptions. Throws as run_suite.
std::string serves_nothing(const std::shared_ptr<const Implementation>& implementation,
                           const std::string& folder);

// The line of generated case k of a law in a run: every law and case has a stream of its own.
std::string generated_line(const Law& law, std::uint64_t seed, std::int64_t k, int size);

// Parses the line in the worker and judges it.
Judgement judge_line(const Law& law, const std::string& line, const Implementation& implementation);

}  // namespace sinktrap
