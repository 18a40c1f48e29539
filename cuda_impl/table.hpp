// The CUDA implementation as implementations under test: the same tables as a plug-in's.
#pragma once
#include <cstdint>

#include "contract/sinktrap.h"

namespace sinktrap::cuda_impl {

// The forward kernels. Everything else of an implementation is the same for all four.
//   ordered  the specified arithmetic of CONTRACT.md section 7
//   tiled    shared-memory tiles, f32 fma; rounds gate_up_bridge, act and down_bridge
//   mma      tensor-core tiles with the LoRA terms as an extension of K; rounds the same
//   decode   each weight read once, K split; keeps every intermediate in f32; up to 32 tokens in a pass, more
//            in several passes
// The last three have bf16 and f16 storage only.
enum class Kernel : std::int32_t { ordered, tiled, mma, decode };

// "simt:ordered" ...: the kernels' sources on this machine's CPU.
const sinktrap_implementation_table* simt_table(Kernel kernel);
// "cuda:ordered" ...: the same sources compiled by nvcc, on a device. Null when the project was built without
// nvcc.
const sinktrap_implementation_table* cuda_table(Kernel kernel);
// True when a device is there for cuda_table(); otherwise `why` says what is missing.
bool cuda_device_present(const char** why);

inline const sinktrap_implementation_table* simt_ordered_table() { return simt_table(Kernel::ordered); }

}  // namespace sinktrap::cuda_impl
