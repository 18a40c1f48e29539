// Threads that do not meet: found by the executor in every build.
#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

__global__ void divergent_barrier(bool defect) {
  if (defect && threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();  // defect: divergent_barrier
  }
}

__global__ void early_return(bool defect, const int* count) {
  if (threadIdx.x >= 300 && defect) return;
  __syncthreads();  // defect: early_return
  if (*count > 0) __syncthreads();
}

__global__ void partial_mask(bool defect, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (defect && lane >= 16) return;
  out[lane] = __shfl_xor_sync(0xffffffffu, lane, 1);  // defect: partial_mask
}

__global__ void foreign_mask(bool defect, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= 16) return;
  const unsigned mask = defect ? 0xffff0000u : 0xffffu;
  out[lane] = static_cast<int>(__ballot_sync(mask, 1));  // defect: foreign_mask
}

__global__ void deadlock(bool defect) {
  if (threadIdx.x % 32 == 0 || !defect) __syncwarp();  // defect: deadlock
  __syncthreads();
}

}  // namespace

std::vector<Defect> barrier_defects() {
  static const char* const file = "barrier_defects.cu";
  return {
      {"divergent_barrier", file, "barrier divergence",
       [](bool defect) {
         return launch({2, 64}, divergent_barrier, defect);
       }},
      {"early_return", file, "returned",
       [](bool defect) {
         const Zeros<int> count(1);
         return launch({2, 320}, early_return, defect, count.get());
       }},
      {"partial_mask", file, "lane",
       [](bool defect) {
         const Zeros<int> out(32);
         return launch({1, 32}, partial_mask, defect, out.get());
       }},
      {"foreign_mask", file, "not in its own mask",
       [](bool defect) {
         const Zeros<int> out(32);
         return launch({1, 32}, foreign_mask, defect, out.get());
       }},
      {"deadlock", file, "deadlock",
       [](bool defect) {
         return launch({1, 64}, deadlock, defect);
       }},
  };
}

}  // namespace sinktrap::simt
