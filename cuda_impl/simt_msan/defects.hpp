// Kernels that read what nobody wrote: MemorySanitizer has to end the process at the line with the comment
// "// defect: NAME", and to be silent about the twins.
#pragma once
#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {

// False with error() when the launch failed.
bool unwritten_shared(bool defect);
bool unwritten_device(bool defect);

}  // namespace sinktrap::simt
