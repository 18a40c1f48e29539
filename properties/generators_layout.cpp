// Generated layouts: valid ones, near misses, and everything that a descriptor can hold.
#include "judge/layouts.hpp"
#include "properties/draw.hpp"
#include "properties/neighbours.hpp"

namespace sinktrap::draw {
namespace {

std::int64_t wild_extent(const LayoutCase& c) {
  const auto& b = c.buffers[static_cast<std::size_t>(pick(0, 3))].shape;
  switch (pick(0, 5)) {
    case 0:
      return b.empty() ? 0 : b[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(b.size()) - 1))];
    case 1:
      return pick(-2, 4);
    case 2:
      return c.n;
    case 3:
      return *rc::gen::elementOf(std::vector<std::int64_t>(kWildExtents.begin(), kWildExtents.end()));
    default:
      return pick(0, 40);
  }
}

}  // namespace

// Real Inkling sizes and everything up to int64, for cases that never touch memory.
LayoutCase valid_layout_case(int size) {
  Dimensions d = dimensions(size);
  if (one_in(4)) {
    const bool small = one_in(2);
    d = {2, small ? 4096 : 6144, (small ? 2048 : 3072) >> pick(0, 3), std::int64_t{16} << pick(0, 2),
         pick(1, 8)};
  } else if (one_in(6)) {
    std::int64_t Dimensions::*const fields[] = {&Dimensions::H, &Dimensions::F, &Dimensions::R,
                                                &Dimensions::S};
    d.*fields[pick(0, 3)] = std::int64_t{1} << pick(20, 61);
  }
  LayoutCase c = valid_layout(d, one_in(2) ? ExpertLayout::shared : ExpertLayout::per_expert);
  if (one_in(3)) {
    c.H = d.H;
    c.F = d.F;
  }
  const Element type = storage();
  for (BufferCase& b : c.buffers) b.dtype = dl_type(type);
  return c;
}

LayoutCase any_shapes(int size) {
  LayoutCase c = valid_layout_case(size);
  if (c.n > 1 && one_in(6)) {  // the mixed pair that the layer must refuse
    auto& outer =
        c.buffers[one_in(2) ? SINKTRAP_BUFFER_GATE_UP_LORA_A : SINKTRAP_BUFFER_DOWN_LORA_B].shape[1];
    outer = outer == 1 ? c.n : 1;
  }
  if (one_in(
          5)) {  // two checks fail at once: their order decides, and 1 is a value that more than one may take
    constexpr std::pair<std::size_t, std::size_t> axes[] = {{0, 1}, {3, 1}, {1, 1}, {2, 1}, {0, 2},
                                                            {2, 2}, {3, 3}, {3, 0}, {3, 2}, {1, 2}};
    for (int i = 0; i < 2; ++i) {
      const auto& [buffer, axis] = axes[pick(0, 9)];
      std::int64_t& v = c.buffers[buffer].shape[axis];
      v = one_in(4) ? 1 : v < INT64_MAX ? v + 1 : 1;
    }
    return c;
  }
  // Two faults at once show the order of the checks.
  const std::int64_t edits = one_in(5) ? 0 : one_in(2) ? 1 : one_in(2) ? 2 : pick(3, 6);
  for (std::int64_t i = 0; i < edits; ++i) {
    auto& shape = c.buffers[static_cast<std::size_t>(pick(0, 3))].shape;
    if (one_in(12)) {
      shape.resize(static_cast<std::size_t>(pick(0, 6)), 1);
      continue;
    }
    if (shape.empty()) continue;
    std::int64_t& v = shape[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(shape.size()) - 1))];
    v = !one_in(3) && v < INT64_MAX && v > INT64_MIN ? v + (one_in(2) ? 1 : -1) : wild_extent(c);
  }
  if (one_in(12)) c.n = wild_extent(c);
  // The layer's own H and F: near what the buffers say, or anything.
  if (one_in(8))
    c.H = one_in(2) && c.H > 0 && c.H < INT64_MAX ? c.H + 1 : one_in(2) ? pick(-1, 8) : wild_extent(c);
  if (one_in(8))
    c.F = one_in(2) && c.F > 0 && c.F < INT64_MAX ? c.F + 1 : one_in(2) ? pick(-1, 8) : wild_extent(c);
  return c;
}

LayoutCase anything(int size) {
  LayoutCase c = one_in(3) ? valid_layout_case(size) : any_shapes(size);
  const bool placed = one_in(2);
  std::uint64_t at = 4096;
  for (BufferCase& b : c.buffers) {
    if (placed) {
      b.address = at;
      double bytes = 2;
      for (const std::int64_t e : b.shape) bytes *= static_cast<double>(std::max<std::int64_t>(e, 1));
      if (bytes < 1e15) at += (static_cast<std::uint64_t>(bytes) * 2 / 256 + 1) * 256;
    }
    if (one_in(4) && b.shape.size() < 8) {
      std::vector<std::int64_t> strides(b.shape.size(), 1);
      for (std::size_t i = b.shape.size(); i-- > 1;)
        strides[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) *
                                                   static_cast<std::uint64_t>(b.shape[i]));
      if (!strides.empty() && one_in(3))
        strides[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(strides.size()) - 1))] =
            pick(-1, 9);
      b.strides = std::move(strides);
    }
  }
  BufferCase& b = c.buffers[static_cast<std::size_t>(pick(0, 3))];
  switch (pick(0, 9)) {
    case 0:
      b.dtype = dl_type(*rc::gen::element(Element::f64, Element::f16, Element::f32, Element::i32));
      break;
    case 1:
      b.dtype.lanes = static_cast<std::uint16_t>(pick(0, 3));
      break;
    case 2:
      b.device = {kDLCUDA, static_cast<std::int32_t>(pick(0, 1))};
      break;
    case 3:
      b.byte_offset = static_cast<std::uint64_t>(pick(0, 9));
      break;
    case 4:
      if (placed) b.address = static_cast<std::uint64_t>(one_in(2) ? 0 : pick(1, 9000));
      break;
    case 5:
      if (placed) b.address = *c.buffers[0].address + static_cast<std::uint64_t>(pick(0, 64)) * 2;
      break;
    case 6:
      if (placed) b.address = UINT64_MAX - static_cast<std::uint64_t>(pick(0, 64));
      break;
    default:
      break;
  }
  return c;
}

}  // namespace sinktrap::draw
