// Judging a pass whose inputs hold NaN, infinity, subnormal or huge values (CONTRACT.md section 6, "NaN and
// infinity").
#pragma once
#include "cases/inputs.hpp"
#include "judge/status.hpp"

namespace sinktrap {

// Element by element, by what section 5 leads there (reference/reach.hpp): a NaN must be one, an infinity
// must be infinity or NaN, and what none of them reaches lies within the worst-case bound, in which
// subnormals may be flushed. An element that may be anything, or whose bound is infinite, is counted as
// unjudged. NaN payloads are not looked at.
Judgement judge_hostile(const ForwardInputs& in, const Tensor& found,
                        const sinktrap_declaration& declaration);

}  // namespace sinktrap
