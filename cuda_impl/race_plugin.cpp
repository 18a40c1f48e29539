// "simt-race:KERNEL" as a plug-in: the kernels of simt:KERNEL, compiled for the race runtime. A library of
// its own, so that the program has neither the compiler's calls nor the runtime in it.
#include <string>

#include "cuda_impl/host/abi.hpp"

using sinktrap::cuda_impl::Kernel;

extern "C" __attribute__((visibility("default"))) const sinktrap_implementation_table*
sinktrap_implementation(std::uint32_t host_abi_version) {
  static const sinktrap_implementation_table table = [] {
    sinktrap_implementation_table t = *sinktrap::cuda_impl::on_simt::table(Kernel::SINKTRAP_RACE_KERNEL);
    t.name = "simt-race:" SINKTRAP_RACE_NAME;
    return t;
  }();
  return host_abi_version == SINKTRAP_ABI_VERSION ? &table : nullptr;
}
