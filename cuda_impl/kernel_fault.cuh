// Faults of concurrency for the kill matrix (docs/mutants.md). Everywhere but in the library of mutants
// faulty() is a constant, and the compilers drop what stands behind it.
#pragma once
#include "cuda_impl/simt/simt.hpp"
#include "cuda_impl/target.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

enum class Fault : int {
  none,
#define X(name, kernels, what, report) name,
#include "cuda_impl/kernel_faults.def"
#undef X
  sums_and_finish,  // no fault: the twin of flag_without_fence, with its fences
};

#if defined(SINKTRAP_KERNEL_MUTANTS)
extern Fault selected_fault;  // kernel_mutants.cpp; not changed while a kernel runs
__host__ __device__ inline bool faulty(Fault fault) { return selected_fault == fault; }
#else
__host__ __device__ constexpr bool faulty(Fault) { return false; }
#endif

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
