// Where a wrong forward pass is wrong: which rows and columns of the output differ, and which parts of the
// layer carry the difference, found by taking parts of the inputs away and judging what is left.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cases/inputs.hpp"
#include "judge/implementation.hpp"
#include "judge/stage.hpp"

namespace sinktrap {

struct Localisation {
  Stage stage = Stage::nowhere;  // `memory`, or one of repeatability..nowhere
  // For a person, the first one naming the stage: tokens, columns, experts, halves, ranks, features, and a
  // picture of the output.
  std::vector<std::string> lines;
};

// Nothing when the implementation is right on this case. May throw Stop, as a judgement does.
std::optional<Localisation> localise(const ForwardCase& c, const Implementation& implementation);

// "stage    gate/up delta: ..." for the head of a localisation.
std::string stage_line(Stage stage, const std::string& why);

// "0..3, 7" for {0, 1, 2, 3, 7}.
std::string ranges_text(const std::vector<std::int64_t>& sorted);

}  // namespace sinktrap
