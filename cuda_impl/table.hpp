// The CUDA implementation as implementations under test: the same table as a plug-in's.
#pragma once
#include "contract/sinktrap.h"

namespace sinktrap::cuda_impl {

// "simt:ordered": the kernels' sources on this machine's CPU.
const sinktrap_implementation_table* simt_ordered_table();
// "cuda:ordered": the same sources compiled by nvcc, on a device. Null when the project was built without
// nvcc.
const sinktrap_implementation_table* cuda_ordered_table();
// True when a device is there for cuda_ordered_table(); otherwise `why` says what is missing.
bool cuda_device_present(const char** why);

}  // namespace sinktrap::cuda_impl
