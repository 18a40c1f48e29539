// The fixed set of cases that the kernels run under MemorySanitizer: layers, pools and batches in memory that
// is uninitialised until it is written here. Without GoogleTest, fmt and JSON, about which it reports
// falsely.
#pragma once
#include <cstdint>

#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

struct MsanCase {
  Kernel kernel;
  Type type;
  bool per_expert, contiguous_w13, gammas_f32;
  std::int64_t T, n, H, F, R, S;  // R 0: no pool
  std::uint64_t schedule;
};

// Forward, loading and updating of a case; then every element of `out` has to be initialised. The last slot
// of the pool stays unwritten: nothing may depend on it. False when a launch failed; device_error() says how.
bool run_forward_case(const MsanCase& c);
// Validation, sharding, expansion and collapse, on memory of the same kind.
bool run_pool_kernels();

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
