// How much scratch a forward pass needs, and where its parts lie.
#pragma once
#include <cstdint>

#include "cuda_impl/host/device_buffer.hpp"
#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// Scratch of a kernel for the layer and pool in a view, for groups of tokens.
class ScratchPlan {
 public:
  // Sets the view's pitches and splits.
  ScratchPlan(Kernel kernel, ForwardView& view);

  std::int64_t group_tokens() const { return group_tokens_; }
  // Groups of one launch: what kScratchBytes and the grid allow, at least 1.
  std::int64_t max_groups() const { return max_groups_; }
  // Groups of the launches that T >= 1 tokens need.
  std::int64_t groups(std::int64_t T) const;
  // Makes `buffer` hold `groups` groups and points the view into it.
  void place(std::int64_t groups, DeviceBuffer& buffer, ForwardView& view) const;
  // Before each pass; can be captured.
  bool fill(std::int64_t groups, const DeviceBuffer& buffer) const;

 private:
  std::uint64_t part_end(int part, std::int64_t groups) const;

  enum { kPackedX, kBridge, kAct, kDownBridge, kPartial, kParts };

  std::uint64_t bytes_[kParts] = {};  // of one group
  std::int64_t group_tokens_ = 0, max_groups_ = 1;
  bool fill_;
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
