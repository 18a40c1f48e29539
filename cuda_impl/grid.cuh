// One-dimensional grids over elements: the configuration for the host, the index for the device.
#pragma once
#include <cstdint>

#include "cuda_impl/simt/simt.hpp"
#include "cuda_impl/target.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// Four warps hide latency and still leave small launches small.
inline constexpr std::int64_t kBlockThreads = 128;
inline constexpr std::int64_t kWarpThreads = 32;

// Threads of a block that works on `elements`: whole warps, no more than there is work for.
inline unsigned block_threads(std::int64_t elements) {
  const std::int64_t whole = (elements + kWarpThreads - 1) / kWarpThreads * kWarpThreads;
  return static_cast<unsigned>(whole < kBlockThreads ? whole : kBlockThreads);
}
// Blocks that give each of `elements` (at least 1) a thread.
inline std::int64_t block_count(std::int64_t elements) {
  return (elements + kBlockThreads - 1) / kBlockThreads;
}

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
