#include "cuda_impl/host/scratch.hpp"

#include <algorithm>

#include "cuda_impl/target.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// Scratch for one chunk of tokens. Large enough that a chunk fills a GPU at the sizes of CONTRACT.md
// section 1.
constexpr std::uint64_t kScratchBytes = std::uint64_t{64} << 20;
constexpr std::int64_t kMaxGroups = 65535;  // the group is the grid's z axis
constexpr std::int64_t kTileTokens = 32;    // the smallest tile of tokens: at most 65535 of them, too
constexpr std::uint64_t kAlignment = 256;   // of each part, that of device_allocate

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

ScratchPlan::ScratchPlan(Kernel kernel, ForwardView& v)
    // NaN: reading a place that no kernel wrote must show. On a GPU the ordered pass, which is there to be
    // right, keeps that; the others would pay for it in every call.
    : fill_(!SINKTRAP_ON_GPU || kernel == Kernel::ordered) {
  const auto bytes = [](std::int64_t rows, std::int64_t tokens, std::int64_t size) {
    return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(tokens * size);
  };
  const std::int64_t up_rows = v.outer * 2 * v.R, down_rows = v.outer * v.R;
  switch (kernel) {
    case Kernel::ordered:
      group_tokens_ = kLanes;
      bytes_[kPackedX] = bytes(v.H, kLanes, 4);
      bytes_[kBridge] = bytes(up_rows, kLanes, 4);
      bytes_[kAct] = bytes(v.n * v.F, kLanes, 4);
      bytes_[kDownBridge] = bytes(down_rows, kLanes, 4);
      break;
    case Kernel::tiled:
    case Kernel::mma:
      group_tokens_ = kTileTokens;
      v.R_pitch = (v.R + 7) / 8 * 8;
      v.F_pitch = (v.F + 7) / 8 * 8;
      bytes_[kBridge] = bytes(v.outer * 2 * v.R_pitch, kTileTokens, 2);
      bytes_[kAct] = bytes(v.n * v.F_pitch, kTileTokens, 2);
      bytes_[kDownBridge] = bytes(v.outer * v.R_pitch, kTileTokens, 2);
      break;
    case Kernel::decode:
      group_tokens_ = kDecodeTokens;
      choose_splits(v);
      bytes_[kBridge] = bytes(up_rows, kDecodeTokens, 4);
      bytes_[kAct] = bytes(v.n * v.F, kDecodeTokens, 4);
      bytes_[kDownBridge] = bytes(down_rows, kDecodeTokens, 4);
      bytes_[kPartial] =
          bytes(std::max(v.up_splits * (v.n * 2 * v.F + up_rows), v.down_splits * (v.H + down_rows)),
                kDecodeTokens, 4);
      return;  // one group: a launch serves at most kDecodeTokens
  }
  std::uint64_t group = 0;
  for (std::uint64_t b : bytes_) group += b;
  max_groups_ = static_cast<std::int64_t>(
      std::clamp<std::uint64_t>(kScratchBytes / group, 1, static_cast<std::uint64_t>(kMaxGroups)));
}

std::int64_t ScratchPlan::groups(std::int64_t T) const {
  return std::min((T - 1) / group_tokens_ + 1, max_groups_);
}

// Where the parts before `part` end.
std::uint64_t ScratchPlan::part_end(int part, std::int64_t groups) const {
  std::uint64_t end = 0;
  for (int i = 0; i < part; ++i) end += aligned(bytes_[i] * static_cast<std::uint64_t>(groups));
  return end;
}

void ScratchPlan::place(std::int64_t groups, DeviceBuffer& buffer, ForwardView& v) const {
  auto* at = static_cast<char*>(buffer.reserve(part_end(kParts, groups)));
  v.packed_x = reinterpret_cast<float*>(at + part_end(kPackedX, groups));
  v.bridge = at + part_end(kBridge, groups);
  v.act = at + part_end(kAct, groups);
  v.down_bridge = at + part_end(kDownBridge, groups);
  v.partial = reinterpret_cast<float*>(at + part_end(kPartial, groups));
}

bool ScratchPlan::fill(std::int64_t groups, const DeviceBuffer& buffer) const {
  return !fill_ || device_fill(buffer.get(), 0xff, part_end(kParts, groups));
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
