// The reference as implementations under test: the same table as a plug-in's.
#pragma once
#include "contract/sinktrap.h"

namespace sinktrap::reference {

// "reference": validation and state of the reference, forward in f64 (no seam rounded).
const sinktrap_implementation_table* f64_table();
// "reference:ordered": the same with the ordered f32 forward; option seams=NAME+NAME.
const sinktrap_implementation_table* ordered_table();

}  // namespace sinktrap::reference
