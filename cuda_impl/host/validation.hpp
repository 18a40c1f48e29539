// Judging layouts: flattening descriptors on the host, judging on the device.
#pragma once
#include <cstdint>

#include "contract/sinktrap.h"
#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// A layout without pointers into host memory.
void flatten(const sinktrap_layout& layout, FlatLayout& flat);
// The layout of four buffers of a layer (H, F: or SINKTRAP_ANY).
sinktrap_layout layout_of(std::int64_t n, std::int64_t H, std::int64_t F,
                          const DLTensor buffers[SINKTRAP_BUFFER_COUNT]);

// One verdict for each layout. Throws DeviceFailure; the profile has been checked.
void validate_layouts(const sinktrap_layout* layouts, std::int64_t count, std::int32_t profile,
                      sinktrap_verdict* verdicts);

// Four buffers of a layer (H, F: or SINKTRAP_ANY) under the strict profile.
sinktrap_verdict validate_buffers(std::int64_t n, std::int64_t H, std::int64_t F,
                                  const DLTensor buffers[SINKTRAP_BUFFER_COUNT]);

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
