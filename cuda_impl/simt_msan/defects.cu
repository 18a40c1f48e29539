// A planted defect for MemorySanitizer, and its twin.
#include <sanitizer/msan_interface.h>

#include "cuda_impl/simt_msan/defects.hpp"

namespace sinktrap::simt {
namespace {

// Each thread hands its neighbour a value; with the defect, the last one hands none.
__global__ void neighbours_kernel(float* out, int last) {
  auto& values = shared<float[32], struct NeighbourValues>();
  const int i = static_cast<int>(threadIdx.x);
  if (i < last) values[i] = static_cast<float>(i);
  __syncthreads();
  out[i] = values[(i + 1) % 32] > 0.5f ? 1.0f : 0.0f;  // defect: unwritten_shared
}

// The same with device memory that nobody wrote.
__global__ void sums_kernel(float* out, const float* in) {
  float sum = 0.0f;
  for (int k = 0; k < 4; ++k) sum += in[threadIdx.x * 4 + static_cast<unsigned>(k)];
  out[threadIdx.x] = sum > 0.0f ? sum : 0.0f;  // defect: unwritten_device
}

}  // namespace

bool unwritten_shared(bool defect) {
  auto* out = static_cast<float*>(allocate(32 * sizeof(float)));
  const bool ok = launch({1, 32}, neighbours_kernel, out, defect ? 31 : 32);
  __msan_check_mem_is_initialized(out, 32 * sizeof(float));
  return release(out) && ok;
}

bool unwritten_device(bool defect) {
  auto* out = static_cast<float*>(allocate(8 * sizeof(float)));
  auto* in = static_cast<float*>(allocate(32 * sizeof(float)));
  fill(in, 0, (defect ? 31 : 32) * sizeof(float));
  const bool ok = launch({1, 8}, sums_kernel, out, in);
  __msan_check_mem_is_initialized(out, 8 * sizeof(float));
  return release(in) && release(out) && ok;
}

}  // namespace sinktrap::simt
