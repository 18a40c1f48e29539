// Faults of concurrency in the CUDA kernels (cuda_impl/kernel_faults.def), run on the executor with the race
// runtime: a library of its own, opened when the first of them is wanted.
#pragma once
#include <string>

#include "mutants/mutants.hpp"

namespace sinktrap {

// "mma:wait_one_short", ... of kind `concurrency`; before them the kernels as they are (kind `unmutated`),
// and among them what is legal (kind `equivalent`). Empty where the library is not there.
const std::vector<Mutant>& kernel_mutants();
// Why there are none; empty when there are.
const std::string& kernel_mutants_missing();
// As select_mutant: of the whole process, until the next call.
std::shared_ptr<const Implementation> select_kernel_mutant(int index);

}  // namespace sinktrap
