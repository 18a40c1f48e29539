#include "cuda_impl/host/graph_route.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

StepGraph& GraphRoute::update_step() {
  // Bound, and with a place for the graph, it is OK or throws.
  if (!update_) instance_.capture_update(&update_);
  return *update_;
}

Verdict GraphRoute::bind(const DLTensor* buffers) {
  if (instance_.bound()) {
    StepGraph& step = update_step();
    if (const Verdict v = step.describe(buffers); v.code != SINKTRAP_OK) return v;
    const Verdict judged = step.replay();
    step.describe_bound();
    if (judged.code == SINKTRAP_OK) return update(nullptr);
    if (judged.code != SINKTRAP_ARGUMENT) return judged;  // `argument`: a legal pool somewhere else
  }
  const Verdict v = instance_.bind(buffers);
  if (v.code != SINKTRAP_OK) return v;
  update_.reset();
  forward_.reset();
  return v;
}

Verdict GraphRoute::update(const sinktrap_slot_set* slots) {
  if (!instance_.bound()) return instance_.update(slots);
  StepGraph& step = update_step();
  if (const Verdict v = step.mark(slots); v.code != SINKTRAP_OK) return v;
  return step.replay();
}

Verdict GraphRoute::forward(const sinktrap_forward_args* args) {
  if (!instance_.bound()) return instance_.forward(args);
  if (const Verdict v = instance_.check_arguments(args); v.code != SINKTRAP_OK) return v;
  if (!forward_ || !forward_->serves(*args)) {
    if (const Verdict v = instance_.capture(args, &forward_); v.code != SINKTRAP_OK) return v;
  }
  return forward_->replay();
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
