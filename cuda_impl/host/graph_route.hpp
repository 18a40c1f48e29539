// The option `graph=on`: bind, update and forward as replays of captured steps, so that whatever judges the
// direct calls judges the graphs (graph.hpp) as well.
#pragma once
#include <memory>

#include "cuda_impl/host/graph.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// The operations of an instance with the same verdicts and effects as its own (CONTRACT.md section 3). What
// no graph can hold goes to the instance itself: the first bind, which allocates the derived operands; a bind
// to a pool at other addresses; forward before a bind. `load`, `unload` and `derived` are the instance's.
class GraphRoute {
 public:
  explicit GraphRoute(Instance& instance) : instance_(instance) {}
  Verdict bind(const DLTensor* buffers);
  Verdict update(const sinktrap_slot_set* slots);
  Verdict forward(const sinktrap_forward_args* args);

 private:
  StepGraph& update_step();

  Instance& instance_;
  // Of the bound pool; null until they are needed. The latter serves the last arguments again, and is
  // captured anew for others.
  std::unique_ptr<StepGraph> update_, forward_;
};

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
