// Smaller cases: typed steps towards what a person can compute by hand.
#pragma once
#include <functional>
#include <vector>

#include "cases/case.hpp"

namespace sinktrap {

// Candidates for a simpler case, most radical first; every one parses and differs from `c`. Used by the
// RapidCheck generators as their shrinker, and by the shrinking of corpus and fuzz cases.
std::vector<Case> smaller_cases(const Case& c);

// Walks down from a failing case as long as `fails` holds for some smaller one. At most `budget` calls.
Case shrink_case(const Case& failing, const std::function<bool(const Case&)>& fails, int budget);

}  // namespace sinktrap
