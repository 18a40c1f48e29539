#include "cuda_impl/table.hpp"

#include "cuda_impl/host/abi.hpp"

namespace sinktrap::cuda_impl {

const sinktrap_implementation_table* simt_table(Kernel kernel) { return on_simt::table(kernel); }

#if defined(SINKTRAP_HAS_GPU_BUILD)
const sinktrap_implementation_table* cuda_table(Kernel kernel) { return on_gpu::table(kernel); }
bool cuda_device_present(const char** why) { return on_gpu::present(why); }
#else
const sinktrap_implementation_table* cuda_table(Kernel) { return nullptr; }
bool cuda_device_present(const char** why) {
  if (why != nullptr) *why = "built without nvcc";
  return false;
}
#endif

}  // namespace sinktrap::cuda_impl
