// One layer with its pool: the state behind sinktrap_instance, and the operations on it. Each operation
// returns its verdict and throws DeviceFailure (or std::bad_alloc) when the device or the host has failed.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "cuda_impl/host/device_buffer.hpp"
#include "cuda_impl/host/scratch.hpp"
#include "cuda_impl/host/tensors.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// What a kernel rounds to the storage type, where it cannot be chosen: the tiled and mma passes keep their
// intermediates in that type, the decode pass keeps them in f32.
constexpr std::uint32_t fixed_seams(Kernel kernel) {
  return kernel == Kernel::tiled || kernel == Kernel::mma
             ? SINKTRAP_SEAM(GATE_UP_BRIDGE) | SINKTRAP_SEAM(ACT) | SINKTRAP_SEAM(DOWN_BRIDGE)
             : 0u;
}
// The ordered kernel rounds at the seams that it is told to, and has f32 storage.
constexpr bool is_ordered(Kernel kernel) { return kernel == Kernel::ordered; }

// The options behind '?'. An unknown key or a bad value is text in `problem`.
struct Options {
  std::uint32_t seams;
  std::uint64_t schedule = 0;  // simt only
  bool graphs = false;         // calls go through captured steps (graph_route.hpp)
  std::string problem;
};
class StepGraph;
Options parse_options(Kernel kernel, std::string_view text);

class Instance {
 public:
  // The layer has been checked by check_layer.
  Instance(Kernel kernel, const sinktrap_layer& layer, const Options& options);
  static Verdict check_layer(Kernel kernel, const sinktrap_layer* layer);

  Verdict bind(const DLTensor* buffers);
  Verdict update(const sinktrap_slot_set* slots);
  Verdict forward(const sinktrap_forward_args* args);
  // A step that can be replayed (graph.hpp), with these arguments; *graph is null unless the code is OK.
  Verdict capture(const sinktrap_forward_args* args, std::unique_ptr<StepGraph>* graph);
  // The same without forward.
  Verdict capture_update(std::unique_ptr<StepGraph>* graph);
  bool bound() const { return pool_.bound; }
  // What forward asks of its arguments but for the ids.
  Verdict check_arguments(const sinktrap_forward_args* args) const;
  Verdict load(std::int64_t slot, const sinktrap_adapter* adapter);
  Verdict unload(std::int64_t slot);
  Verdict derived(std::string_view name, DLTensor* out);
  sinktrap_declaration declaration() const;
  // Order of threads for the launches that follow.
  void choose_schedule() const { device_schedule(schedule_); }

 private:
  struct Pool {
    bool bound = false;
    std::int64_t S = 0, outer = 1, R = 0;
    std::array<void*, SINKTRAP_BUFFER_COUNT> buffers{};
    std::array<std::array<std::int64_t, 4>, SINKTRAP_BUFFER_COUNT> extents{};
  };
  PoolView view(const Pool& pool) const;
  void derive(const Pool& pool, const std::vector<std::int64_t>& slots) const;
  Verdict slot_problem(std::int64_t slot) const;  // unbound, slot_range, or ok
  Verdict slots_of(const sinktrap_slot_set* slots, std::vector<std::int64_t>& ids) const;
  void zero_slot(std::int64_t slot);
  ForwardView layer_view() const;                                     // no tokens
  ForwardView forward_view(const sinktrap_forward_args& args) const;  // but for scratch
  bool run(const ForwardView& view) const;
  bool run_chunks(const ForwardView& whole, const ScratchPlan& plan) const;
  friend class StepGraph;

  Kernel kernel_;
  std::int64_t n_, H_, F_;
  std::int32_t w13_layout_;
  DLDataType dtype_;
  Type type_;
  const void *w13_, *w2_;
  std::uint32_t seams_;
  std::uint64_t schedule_;
  Pool pool_;
  DeviceBuffer w1_delta_, a_cat_, b_cat_, scratch_;
  // Shapes that views of derived operands point to.
  std::array<std::int64_t, 3> w1_delta_shape_{}, a_cat_shape_{}, b_cat_shape_{};
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
