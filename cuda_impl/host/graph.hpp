// A step of a serving engine as one CUDA graph: the layout is judged, the slots that are marked are updated,
// and the batch goes through forward; CONTRACT.md sections 2 and 3, "under graph capture". Nothing in it is
// decided when it is captured but T, the shapes of the pool and the addresses: which slots are updated, which
// slot a token has and how many slots are in use is read from device memory at each replay.
#pragma once
#include <memory>

#include "cuda_impl/host/device_buffer.hpp"
#include "cuda_impl/host/instance.hpp"
#include "cuda_impl/host/scratch.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// Made by Instance::capture, which runs nothing. The instance, the pool, and the tensors of the arguments
// stay where they are as long as it is replayed; their contents may change between replays. Memory that the
// graph writes, apart from `out` and the derived operands, is its own: direct calls on the instance between
// replays are allowed. One OS thread at a time, as for the instance.
class StepGraph {
 public:
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;
  ~StepGraph();

  // The slots that the next replay updates, in addition to those marked before; null: all. Refuses like
  // Instance::update. A replay that is refused keeps the marks.
  Verdict mark(const sinktrap_slot_set* slots);
  // The descriptors that replays judge from now on; at capture those of the bound pool. Shapes that bind
  // would refuse make replay answer bind's verdict; a legal pool at other addresses is `argument`, since the
  // graph would go on reading the old one.
  Verdict describe(const DLTensor buffers[SINKTRAP_BUFFER_COUNT]);
  // Those of the bound pool again.
  void describe_bound();
  // Validation, update and forward, and waits. The first refusal, as validate, bind, update and forward give
  // it; then `out`, the derived operands and the marks are what they were.
  Verdict replay();
  // Whether a replay does what forward would do with these arguments, which have been checked.
  bool serves(const sinktrap_forward_args& args) const;

 private:
  friend class Instance;
  explicit StepGraph(const Instance& instance) : instance_(instance) {}
  void prepare(ForwardView view);  // without tokens: validation and update alone
  bool record(const ForwardView& view, const ScratchPlan& plan);

  const Instance& instance_;
  DLTensor bound_[SINKTRAP_BUFFER_COUNT] = {};
  StepView step_{};
  ForwardView captured_{};
  DeviceBuffer layouts_, marks_, checked_, verdict_, scratch_;
  DeviceGraph* graph_ = nullptr;
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
