// The library of mutants: the kernels with their faults (kernel_fault.cuh), under the race runtime. Not a
// plug-in: mutants/kernel_mutants.cpp asks for a kernel with a fault, which then is that of the process.
#include <array>
#include <string>

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
