#include "cuda_impl/table.hpp"

#include "cuda_impl/host/abi.hpp"

namespace sinktrap::cuda_impl {

const sinktrap_implementation_table* simt_ordered_table() { return on_simt::table(); }

#if defined(SINKTRAP_HAS_GPU_BUILD)
const sinktrap_implementation_table* cuda_ordered_table() { return on_gpu::table(); }
bool cuda_device_present(const char** why) { return on_gpu::present(why); }
#else
const sinktrap_implementation_table* cuda_ordered_table() { return nullptr; }
bool cuda_device_present(const char** why) {
  if (why != nullptr) *why = "built without nvcc";
  return false;
}
#endif

}  // namespace sinktrap::cuda_impl
