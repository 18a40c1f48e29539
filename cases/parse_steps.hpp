// The steps of a state case: bind:SEED;write:SLOT:RANK:SEED;update:0,1;forward:0,-1:SEED
#pragma once
#include <string_view>

#include "cases/fields.hpp"

namespace sinktrap {

// Appends to c.steps, or fails in `f` with the column of the step.
void parse_steps(Fields& f, std::string_view text, std::size_t column, StateCase& c);

}  // namespace sinktrap
