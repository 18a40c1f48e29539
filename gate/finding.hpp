// Where an implementation goes wrong on one failing case of any kind, without asking which known fault it is.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "judge/localise.hpp"
#include "properties/law.hpp"

namespace sinktrap {

struct Finding {
  Localisation where;
  // Another stage, looked at by itself, would explain the case as well: counts only where nothing else is
  // known.
  bool weak = false;

  // For the way out of a worker process.
  Judgement to_judgement() const;
  static std::optional<Finding> from_judgement(const Judgement& j);
};

// Judges the case once more, in this process. Nothing when it does not fail, or says nothing about a place.
std::optional<Finding> find_fault(const Law& law, const std::string& line,
                                  const Implementation& implementation);

// Cases that are worth a look, from the failing ones: small batches first, laws in turn, at most this many.
constexpr std::size_t kFindings = 10;

// Index of the finding that explains the others, or nothing: certain ones go before weak ones, then what
// comes first in Stage; among the parts of the forward pass itself the one found most often.
std::optional<std::size_t> explaining(const std::vector<Finding>& findings);

}  // namespace sinktrap
