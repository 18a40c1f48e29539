#include "cuda_impl/host/graph.hpp"

#include <algorithm>

#include "cuda_impl/host/validation.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

constexpr std::uint64_t kLayoutBytes = sizeof(FlatLayout);

}  // namespace

StepGraph::~StepGraph() {
  if (graph_ != nullptr) device_release_graph(graph_);
}

void StepGraph::prepare(ForwardView v) {
  const Instance& i = instance_;
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    DLTensor& t = bound_[b];
    t = DLTensor{i.pool_.buffers[b], kDevice, 4, i.dtype_, nullptr, nullptr, 0};
    // The shapes of the instance's pool stay where they are; nothing here writes through the view.
    t.shape = const_cast<std::int64_t*>(i.pool_.extents[b].data());
  }
  captured_ = v;
  const std::int64_t S = i.pool_.S;
  const auto words = [](std::int64_t count) { return static_cast<std::uint64_t>(count) * 4; };
  auto* layouts = static_cast<FlatLayout*>(layouts_.reserve(2 * kLayoutBytes));
  step_.layout = layouts;
  step_.bound = layouts + 1;
  step_.marks = static_cast<std::int32_t*>(marks_.reserve(words(S)));
  step_.token_slot = v.token_slot;
  step_.checked_slot = static_cast<std::int32_t*>(checked_.reserve(words(v.T)));
  step_.verdict = static_cast<sinktrap_verdict*>(verdict_.reserve(sizeof(sinktrap_verdict)));
  step_.T = v.T;
  step_.pool = v.pool;
  require_device(device_fill(step_.marks, 0, words(S)));
  FlatLayout flat{};
  flatten(layout_of(i.n_, i.H_, i.F_, bound_), flat);
  require_device(device_write(layouts, &flat, kLayoutBytes) &&
                 device_write(layouts + 1, &flat, kLayoutBytes));

  v.token_slot = step_.checked_slot;
  v.permit = step_.verdict;
  const ScratchPlan plan(i.kernel_, v);
  if (v.T > 0) plan.place(plan.groups(v.T), scratch_, v);
  require_device(device_synchronise());  // nothing of the above is part of the graph

  // Whatever happens in between, the capture ends: it would go on for this OS thread.
  require_device(device_begin_capture());
  const bool recorded = record(v, plan);
  const std::string problem = recorded ? std::string{} : device_error();
  graph_ = device_end_capture();
  if (!recorded) throw DeviceFailure(problem);
  require_device(graph_ != nullptr);
}

bool StepGraph::record(const ForwardView& view, const ScratchPlan& plan) {
  return check_step(step_) && derive_marked(step_, element_bytes(instance_.type_)) &&
         (view.T == 0 || (plan.fill(plan.groups(view.T), scratch_) && instance_.run_chunks(view, plan)));
}

Verdict StepGraph::mark(const sinktrap_slot_set* slots) {
  const std::int64_t S = step_.pool.S;
  std::vector<std::int64_t> ids;
  if (const Verdict v = instance_.slots_of(slots, ids); v.code != SINKTRAP_OK) return v;
  std::vector<std::int32_t> marks(static_cast<std::size_t>(S));
  const std::uint64_t bytes = marks.size() * sizeof(std::int32_t);
  require_device(device_read(marks.data(), step_.marks, bytes));
  for (std::int64_t slot : ids) marks[static_cast<std::size_t>(slot)] = 1;
  require_device(device_write(step_.marks, marks.data(), bytes));
  return verdict_of(SINKTRAP_OK);
}

Verdict StepGraph::describe(const DLTensor* buffers) {
  if (buffers == nullptr) return refuse_argument("describe: no buffers");
  FlatLayout flat{};
  flatten(layout_of(instance_.n_, instance_.H_, instance_.F_, buffers), flat);
  require_device(device_write(layouts_.get(), &flat, kLayoutBytes));
  return verdict_of(SINKTRAP_OK);
}

void StepGraph::describe_bound() { describe(bound_); }

bool StepGraph::serves(const sinktrap_forward_args& args) const {
  const ForwardView v = instance_.forward_view(args);
  const ForwardView& c = captured_;
  return v.T == c.T && v.x == c.x && v.gammas == c.gammas && v.gammas_f32 == c.gammas_f32 &&
         v.token_slot == c.token_slot && v.out == c.out;
}

Verdict StepGraph::replay() {
  // A bind to another pool has moved the derived operands on to it, and the graph would read a mixture.
  if (!std::equal(instance_.pool_.buffers.begin(), instance_.pool_.buffers.end(), step_.pool.buffers))
    return refuse_argument("replay: the graph was captured with another pool than the one that is bound");
  instance_.choose_schedule();
  require_device(device_replay(graph_) && device_synchronise());
  Verdict verdict{};
  require_device(device_read(&verdict, step_.verdict, sizeof verdict));
  return verdict;
}

Verdict Instance::capture(const sinktrap_forward_args* args, std::unique_ptr<StepGraph>* graph) {
  if (graph == nullptr) return refuse_argument("capture: no place for the graph");
  graph->reset();
  if (const Verdict v = check_arguments(args); v.code != SINKTRAP_OK) return v;
  if (!pool_.bound) return verdict_of(SINKTRAP_UNBOUND);
  std::unique_ptr<StepGraph> made(new StepGraph(*this));
  made->prepare(forward_view(*args));
  *graph = std::move(made);
  return verdict_of(SINKTRAP_OK);
}

Verdict Instance::capture_update(std::unique_ptr<StepGraph>* graph) {
  if (graph == nullptr) return refuse_argument("capture: no place for the graph");
  graph->reset();
  if (!pool_.bound) return verdict_of(SINKTRAP_UNBOUND);
  std::unique_ptr<StepGraph> made(new StepGraph(*this));
  made->prepare(layer_view());
  *graph = std::move(made);
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
