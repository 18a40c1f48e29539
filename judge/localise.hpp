// Where a wrong forward pass is wrong: which rows and columns of the output differ, and which parts of the
// layer carry the difference, found by taking parts of the inputs away and judging what is left.
#pragma once
#include <string>
#include <vector>

#include "cases/inputs.hpp"
#include "judge/implementation.hpp"

namespace sinktrap {

// Lines for a person, the first one naming the stage: "base", "gate/up delta", "down delta", "routing" or
// "nowhere in the parts". Empty when the implementation is right on this case. May throw Stop, as a judgement
// does.
std::vector<std::string> localise(const ForwardCase& c, const Implementation& implementation);

// "0..3, 7" for {0, 1, 2, 3, 7}.
std::string ranges_text(const std::vector<std::int64_t>& sorted);

}  // namespace sinktrap
