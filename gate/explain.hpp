// A verdict on a layout in the words that a person needs: which buffer, the shapes, the two legal layouts,
// what to do.
#pragma once
#include <string>

#include "cases/case.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {

std::string explain(const LayoutCase& layout, std::int32_t profile, const Verdict& verdict);

}  // namespace sinktrap
