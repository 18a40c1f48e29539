// Changes of layout cases: shapes, types, strides, devices, addresses.
#include <algorithm>

#include "judge/layouts.hpp"
#include "properties/neighbours.hpp"

namespace sinktrap {
namespace {

// Arithmetic on extents wraps: they may be anything that int64 holds.
std::int64_t wrapped(std::int64_t v, std::int64_t times, std::int64_t plus) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(times) +
                                   static_cast<std::uint64_t>(plus));
}

BufferCase& any_buffer(LayoutCase& c, Random& random) { return c.buffers[random.below(4)]; }

// An extent that stands somewhere in the case, so that values meet where they should differ.
std::int64_t met_extent(LayoutCase& c, Random& random) {
  const auto& shape = any_buffer(c, random).shape;
  return shape.empty() ? c.n : shape[random.below(static_cast<std::uint32_t>(shape.size()))];
}

std::int64_t other_extent(LayoutCase& c, std::int64_t v, Random& random) {
  switch (random.below(8)) {
    case 0:
    case 1:
      return wrapped(v, 1, 1);
    case 2:
      return wrapped(v, 1, -1);
    case 3:
      return wrapped(v, 2, static_cast<std::int64_t>(random.below(2)));
    case 4:
      return kWildExtents[random.below(static_cast<std::uint32_t>(kWildExtents.size()))];
    case 5:
      return random.chance(1, 2) ? c.n : random.between(-2, 9);
    default:
      return met_extent(c, random);
  }
}

// The same layout with one of its extents changed wherever it stands; else one extent alone.
void change_whole(LayoutCase& c, Random& random) {
  const auto& a = c.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape;
  const auto& down_a = c.buffers[SINKTRAP_BUFFER_DOWN_LORA_A].shape;
  Dimensions d{2, 8, 5, 3, 2};
  if (a.size() == 4 && down_a.size() == 4) d = {c.n, a[3], down_a[3], down_a[2], a[0]};
  std::int64_t* const extents[] = {&d.n, &d.H, &d.F, &d.R, &d.S};
  std::int64_t& v = *extents[random.below(5)];
  v = random.chance(1, 16) ? std::int64_t{1} << (20 + random.below(42)) : other_extent(c, v, random);
  for (std::int64_t* extent : extents)  // up to where 2R and 2F still exist
    if (*extent < 1 || *extent > std::int64_t{1} << 61) *extent = 1 + random.below(9);
  const LayoutCase valid =
      valid_layout(d, random.chance(1, 2) ? ExpertLayout::shared : ExpertLayout::per_expert);
  c.n = valid.n;
  if (c.H != SINKTRAP_ANY) c.H = d.H;
  if (c.F != SINKTRAP_ANY) c.F = d.F;
  for (std::size_t b = 0; b < c.buffers.size(); ++b) {
    c.buffers[b].shape = valid.buffers[b].shape;
    if (c.buffers[b].strides && c.buffers[b].strides->size() != 4) c.buffers[b].strides.reset();
  }
}

void change_shape(LayoutCase& c, Random& random) {
  BufferCase& b = any_buffer(c, random);
  if (random.chance(1, 16) || b.shape.empty()) {
    b.shape.resize(random.below(7), 1);
    if (b.strides) b.strides->resize(b.shape.size(), 1);
    return;
  }
  std::int64_t& v = b.shape[random.below(static_cast<std::uint32_t>(b.shape.size()))];
  v = other_extent(c, v, random);
}

void change_layer(LayoutCase& c, Random& random) {
  std::int64_t* const fields[] = {&c.H, &c.F, &c.n};
  std::int64_t& v = *fields[random.below(3)];
  const auto& a = c.buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape;
  const auto& down_a = c.buffers[SINKTRAP_BUFFER_DOWN_LORA_A].shape;
  switch (random.below(4)) {
    case 0:
      v = &v == &c.n ? 2 : SINKTRAP_ANY;
      break;
    case 1:  // what the buffers say, or one beside it
      if (&v != &c.n && a.size() == 4 && down_a.size() == 4)
        v = wrapped(&v == &c.H ? a[3] : down_a[3], 1, random.between(-1, 1));
      break;
    default:
      v = other_extent(c, v, random);
  }
}

void change_type(LayoutCase& c, Random& random) {
  BufferCase& b = any_buffer(c, random);
  switch (random.below(6)) {
    case 0:
    case 1: {  // of all buffers, so that nothing else is wrong
      const DLDataType type = dl_type(static_cast<Element>(random.below(3)));
      for (BufferCase& x : c.buffers) x.dtype = type;
      return;
    }
    case 2:
      b.dtype = dl_type(static_cast<Element>(random.below(6)));
      return;
    case 3:
      b.dtype.lanes = static_cast<std::uint16_t>(random.below(3));
      return;
    case 4:
      b.dtype.bits = static_cast<std::uint8_t>(8 << random.below(4));
      return;
    default:
      b.dtype.code = static_cast<std::uint8_t>(random.below(6));
  }
}

void change_strides(LayoutCase& c, Random& random) {
  BufferCase& b = any_buffer(c, random);
  if (b.shape.empty() || random.chance(1, 6)) {
    b.strides.reset();
    return;
  }
  if (!b.strides || random.chance(1, 3)) {
    std::vector<std::int64_t> strides(b.shape.size(), 1);
    for (std::size_t i = b.shape.size(); i-- > 1;) strides[i - 1] = wrapped(strides[i], b.shape[i], 0);
    b.strides = std::move(strides);
    if (random.chance(1, 2)) return;
  }
  std::int64_t& v = (*b.strides)[random.below(static_cast<std::uint32_t>(b.strides->size()))];
  v = other_extent(c, v, random);
}

// Bytes of a buffer, wrapped; the placement of huge buffers means nothing.
std::uint64_t bytes_of(const BufferCase& b) {
  std::int64_t bytes = std::max(1, b.dtype.bits / 8);
  for (const std::int64_t e : b.shape) bytes = wrapped(bytes, e, 0);
  return static_cast<std::uint64_t>(bytes);
}

void change_memory(LayoutCase& c, Random& random) {
  BufferCase& b = any_buffer(c, random);
  if (!b.address || random.chance(1, 6)) {  // one behind the other, touching or apart
    const std::uint64_t gap = random.chance(1, 2) ? 0 : 256;
    std::uint64_t at = 4096;
    for (BufferCase& x : c.buffers) {
      x.address = at;
      at += bytes_of(x) + gap;
    }
    return;
  }
  const BufferCase& other = any_buffer(c, random);
  switch (random.below(7)) {
    case 0:  // begins in the last element of another, or right behind it
      b.address = *other.address + bytes_of(other) - (random.chance(1, 2) ? 2u : 0u);
      return;
    case 1:  // ends where another begins, or in it
      b.address = *other.address - bytes_of(b) + (random.chance(1, 2) ? 2u : 0u);
      return;
    case 2:
      b.address = random.chance(1, 2) ? 0 : random.below(9000);
      return;
    case 3:
      b.address = UINT64_MAX - random.below(64);
      return;
    case 4:
      b.byte_offset = random.below(10);
      return;
    case 5:
      for (BufferCase& x : c.buffers) x.address.reset();
      return;
    default:
      b.address = *b.address + static_cast<std::uint64_t>(random.between(-3, 3));
  }
}

}  // namespace

void change_layout(LayoutCase& c, Random& random) {
  switch (random.below(16)) {
    case 0:
    case 1:
    case 2:
      return change_whole(c, random);
    case 3:
    case 4:
      return change_layer(c, random);
    case 5:
      return change_type(c, random);
    case 6:
    case 7:
      return change_strides(c, random);
    case 8:
    case 9:
    case 10:
      return change_memory(c, random);
    case 11:
      any_buffer(c, random).device = {random.chance(1, 2) ? kDLCPU : kDLCUDA,
                                      static_cast<std::int32_t>(random.below(3))};
      return;
    case 12:
      c.profile = SINKTRAP_PROFILE_SGLANG + SINKTRAP_PROFILE_STRICT - c.profile;
      return;
    default:
      return change_shape(c, random);
  }
}

}  // namespace sinktrap
