// The tables of both targets, each compiled in its own library.
#pragma once
#include "contract/sinktrap.h"
#include "cuda_impl/table.hpp"

namespace sinktrap::cuda_impl {
namespace on_simt {
const sinktrap_implementation_table* table(Kernel kernel);
}
namespace on_gpu {
const sinktrap_implementation_table* table(Kernel kernel);
// True when a device is there; otherwise `why` says what is missing.
bool present(const char** why);
}  // namespace on_gpu
}  // namespace sinktrap::cuda_impl
