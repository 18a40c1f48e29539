// What a device can do at best, measured in the same run as the kernels. Only in builds with nvcc.
#pragma once
#include <cstdint>

namespace sinktrap {

// Bytes a second, read and written both counted, of the best of several copies of 1 GiB on the device; 0 when
// a call failed (the reason is printed).
double copy_bandwidth();

// Seconds, best of several, in which cuBLAS multiplies the two base products of a layer in bf16 with f32
// accumulation: [T, H] x [H, n * 2F] and [T, n * F] x [n * F, H]; 0 when a call failed.
double base_gemm_seconds(std::int64_t T, std::int64_t H, std::int64_t F, std::int64_t n);

}  // namespace sinktrap
