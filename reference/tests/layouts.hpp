// Layouts for tests: shapes, strides and addresses that live as long as the value.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "contract/verdict.hpp"

namespace sinktrap::reference::test {

struct Buffer {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // empty: null
  std::optional<std::int32_t> ndim;   // absent: as many as the shape has
  DLDataType dtype = {kDLBfloat, 16, 1};
  DLDevice device = {kDLCPU, 0};
  std::uint64_t address = 0, byte_offset = 0;
};

struct Layout {
  std::int64_t n = 2, H = SINKTRAP_ANY, F = SINKTRAP_ANY;
  std::uint32_t flags = SINKTRAP_SHAPES_ONLY;
  std::array<Buffer, SINKTRAP_BUFFER_COUNT> buffers;

  sinktrap_layout view() const {
    sinktrap_layout l{n, H, F, flags, 0, {}};
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const Buffer& from = buffers[b];
      DLTensor& t = l.buffers[b];
      t.data = reinterpret_cast<void*>(from.address);
      t.byte_offset = from.byte_offset;
      t.device = from.device;
      t.dtype = from.dtype;
      t.ndim = from.ndim.value_or(static_cast<std::int32_t>(from.shape.size()));
      t.shape = from.shape.empty() ? nullptr : const_cast<std::int64_t*>(from.shape.data());
      t.strides = from.strides.empty() ? nullptr : const_cast<std::int64_t*>(from.strides.data());
    }
    return l;
  }
};

// A valid layout with pairwise different extents; R may be anything.
inline Layout valid_layout(std::int64_t n = 2, std::int64_t outer = 1, std::int64_t S = 5, std::int64_t R = 4,
                           std::int64_t H = 7, std::int64_t F = 3) {
  Layout l;
  l.n = n;
  l.buffers[0].shape = {S, outer, 2 * R, H};
  l.buffers[1].shape = {S, n, 2 * F, R};
  l.buffers[2].shape = {S, n, R, F};
  l.buffers[3].shape = {S, outer, H, R};
  return l;
}

}  // namespace sinktrap::reference::test
