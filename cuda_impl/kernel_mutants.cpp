// The library of mutants: the kernels with their faults (kernel_fault.cuh), under the race runtime.
// mutants/kernel_mutants.cpp asks for a kernel with a fault, which then is that of the process. It is a
// plug-in too, whose kernel and fault SINKTRAP_FAULT names in the environment: "mma:wait_one_short",
// "mma:none".
#include <array>
#include <cstdlib>
#include <string_view>

#include "cuda_impl/host/abi.hpp"
#include "cuda_impl/kernel_fault.cuh"

namespace sinktrap::cuda_impl::on_simt {
Fault selected_fault = Fault::none;
}

// `kernel` and `fault` in the order of Kernel and Fault.
extern "C" __attribute__((visibility("default"))) const sinktrap_implementation_table* sinktrap_kernel_mutant(
    int kernel, int fault) {
  using namespace sinktrap::cuda_impl;
  static constexpr std::array<const char*, 4> kNames = {"simt-race:ordered", "simt-race:tiled",
                                                        "simt-race:mma", "simt-race:decode"};
  static std::array<sinktrap_implementation_table, kNames.size()> tables;
  const auto k = static_cast<std::size_t>(kernel);
  on_simt::selected_fault = static_cast<on_simt::Fault>(fault);
  tables[k] = *on_simt::table(static_cast<Kernel>(kernel));
  tables[k].name = kNames[k];
  return &tables[k];
}

extern "C" __attribute__((visibility("default"))) const sinktrap_implementation_table*
sinktrap_implementation(std::uint32_t host_abi_version) {
  static constexpr std::array<std::string_view, 4> kKernels = {"ordered", "tiled", "mma", "decode"};
  static constexpr std::string_view kFaults[] = {"none",
#define X(name, kernels, what, report) #name,
#include "cuda_impl/kernel_faults.def"
#undef X
                                                 "sums_and_finish"};
  const char* chosen = std::getenv("SINKTRAP_FAULT");
  const std::string_view text = chosen != nullptr ? chosen : "";
  const auto colon = text.find(':');
  if (host_abi_version != SINKTRAP_ABI_VERSION || colon == std::string_view::npos) return nullptr;
  for (std::size_t k = 0; k < kKernels.size(); ++k)
    for (std::size_t f = 0; f < std::size(kFaults); ++f)
      if (text.substr(0, colon) == kKernels[k] && text.substr(colon + 1) == kFaults[f])
        return sinktrap_kernel_mutant(static_cast<int>(k), static_cast<int>(f));
  return nullptr;
}
