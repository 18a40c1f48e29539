// The line-up: which known fault behaves like an implementation that failed.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "properties/law.hpp"

namespace sinktrap {

struct Suspect {
  std::string name, what;    // of the mutant
  std::int64_t matched = 0;  // failing cases on which both cannot be told apart
};

struct Lineup {
  std::int64_t compared = 0;              // failing cases on which the suspects were tried
  std::vector<Suspect> suspects;          // best first; only those that match at least half of the cases
  std::vector<std::string> localisation;  // where no suspect matches every case: see judge/localise.hpp
  std::string localised_on;               // the case of the localisation
};

struct FailingCase {
  const Law* law;
  std::string line;
};

// Runs every mutant on failing cases, in worker processes, and compares everything that both gave back.
// `folder` as in WorkerOptions. At most about twenty seconds.
Lineup line_up(const std::shared_ptr<const Implementation>& implementation,
               const std::vector<FailingCase>& failing, const std::string& folder, int workers);

// Lines of the text report; empty when there was nothing to compare.
std::vector<std::string> lineup_text(const Lineup& lineup);

}  // namespace sinktrap
