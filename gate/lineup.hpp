// The line-up: which known fault, or which combination of two, behaves like an implementation that failed,
// and where it goes wrong when none does.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "judge/stage.hpp"
#include "properties/law.hpp"

namespace sinktrap {

struct Suspect {
  std::string name, what;    // of the mutant ("a+b": of two); a primitive suspect has no name
  std::int64_t matched = 0;  // failing cases on which both cannot be told apart
};

struct Lineup {
  std::int64_t compared = 0;        // failing cases on which the suspects were tried
  std::vector<Suspect> suspects;    // best first; only those that match at least half of the cases
  std::int64_t parts_compared = 0;  // failing exact batches on which primitive suspects were tried
  std::vector<Suspect> parts;       // the best of them, those that match at least half of the batches
  // Where no named suspect matches every case: see gate/finding.hpp.
  std::string stage;  // id of a Stage, or empty
  std::vector<std::string> localisation;
  std::string localised_on;  // the case of the localisation

  bool empty() const { return compared == 0 && parts_compared == 0 && stage.empty(); }
};

struct FailingCase {
  const Law* law;
  std::string line;
};

// What is tried: known faults, primitive suspects and localising; without the known faults; localising alone;
// nothing.
enum class LineupMode : std::uint8_t { all, parts, where, off };
std::optional<LineupMode> find_lineup_mode(std::string_view name);

struct LineupOptions {
  LineupMode mode = LineupMode::all;
  std::string folder;  // as in WorkerOptions
  int workers = 1;
};

// Runs suspects on failing cases, in worker processes, and compares everything that both gave back. Takes up
// to a minute.
Lineup line_up(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const LineupOptions& options);

// Lines of the text report; empty when there was nothing to compare.
std::vector<std::string> lineup_text(const Lineup& lineup);

// Primitive suspects (gate/suspects.hpp), one or two at a time, on the failing lattice batches.
void try_parts(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const LineupOptions& options, Lineup& result);

// How candidates behave on one case: unlike the right implementation, and like the one that failed.
struct Behaviour {
  std::vector<bool> visible, matches;
};
// Pairs that may explain every case: where only one of the two is visible it has to match; where both are,
// only a trial can tell. Those that are confirmed on most cases come first, at most `most` of them.
std::vector<std::vector<int>> pairs_worth_trying(const std::vector<Behaviour>& cases, std::size_t most);
// Whether a trial is needed on the case.
bool needs_trial(const Behaviour& on, const std::vector<int>& pair);

}  // namespace sinktrap
