// The validation kernel, one thread for each layout, and the device functions that records.hpp offers to host
// sources.
#include "cuda_impl/grid.cuh"
#include "cuda_impl/judge.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

__global__ void validate_kernel(const FlatLayout* layouts, std::int64_t count, std::int32_t profile,
                                sinktrap_verdict* verdicts) {
  const std::int64_t i = thread_index();
  if (i < count) verdicts[i] = judge(layouts[i], profile);
}

// What bind asks of a strictly valid pool, in its order, and the addresses, which the graph holds.
__device__ inline sinktrap_verdict judge_rebind(const FlatLayout& now, const FlatLayout& bound) {
  const FlatBuffer &first = now.buffers[0], &then = bound.buffers[0];
  if (first.type != then.type) return refuse(SINKTRAP_DTYPE, 0, SINKTRAP_NONE, first.type, then.type);
  if (first.device != then.device)
    return refuse(SINKTRAP_DEVICE, 0, SINKTRAP_NONE, first.device, then.device);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    for (int axis = 0; axis < 4; ++axis)
      if (now.buffers[b].extent[axis] != bound.buffers[b].extent[axis])
        return refuse(SINKTRAP_POOL_SHAPE_CHANGED, b, axis, now.buffers[b].extent[axis],
                      bound.buffers[b].extent[axis]);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    if (now.buffers[b].address != bound.buffers[b].address)
      return refuse(SINKTRAP_ARGUMENT, SINKTRAP_NONE, SINKTRAP_NONE, 0, 0);
  return accept();
}

// One block. In the order of the calls that the step stands for: the layout, then the ids.
__global__ void check_step_kernel(StepView s) {
  auto& first_bad = simt::shared<unsigned long long, struct FirstBadToken>();
  const auto none = static_cast<unsigned long long>(s.T);
  if (threadIdx.x == 0) first_bad = none;
  __syncthreads();
  for (std::int64_t t = threadIdx.x; t < s.T; t += blockDim.x)
    if (s.token_slot[t] < -1 || s.token_slot[t] >= s.pool.S)
      atomicMin(&first_bad, static_cast<unsigned long long>(t));
  __syncthreads();
  const auto bad = static_cast<std::int64_t>(first_bad);
  // Every thread judges: one that waited for another would take as long.
  sinktrap_verdict verdict = judge(*s.layout, SINKTRAP_PROFILE_STRICT);
  if (verdict.code == SINKTRAP_OK) verdict = judge_rebind(*s.layout, *s.bound);
  if (verdict.code == SINKTRAP_OK && bad < s.T)
    verdict = refuse(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, s.token_slot[bad], s.pool.S);
  for (std::int64_t t = threadIdx.x; t < s.T; t += blockDim.x)
    s.checked_slot[t] = verdict.code == SINKTRAP_OK ? s.token_slot[t] : -1;
  if (threadIdx.x == 0) *s.verdict = verdict;
}

}  // namespace

bool check_step(const StepView& step) {
  return simt::launch({1, static_cast<unsigned>(kBlockThreads)}, check_step_kernel, step);
}

bool judge_layouts(const FlatLayout* layouts, std::int64_t count, std::int32_t profile,
                   sinktrap_verdict* verdicts) {
  const auto blocks = static_cast<unsigned>(block_count(count));
  return simt::launch({blocks, block_threads(count)}, validate_kernel, layouts, count, profile, verdicts);
}

bool device_present() { return simt::present(); }
void* device_allocate(std::uint64_t bytes) { return simt::allocate(bytes); }
bool device_release(void* pointer) { return simt::release(pointer); }
bool device_write(void* device, const void* host, std::uint64_t bytes) {
  return simt::write(device, host, bytes);
}
bool device_read(void* host, const void* device, std::uint64_t bytes) {
  return simt::read(host, device, bytes);
}
bool device_copy(void* to, const void* from, std::uint64_t bytes) { return simt::copy(to, from, bytes); }
bool device_fill(void* device, int byte, std::uint64_t bytes) { return simt::fill(device, byte, bytes); }
bool device_synchronise() { return simt::synchronise(); }
bool device_begin_capture() { return simt::begin_capture(); }
DeviceGraph* device_end_capture() { return reinterpret_cast<DeviceGraph*>(simt::end_capture()); }
bool device_replay(DeviceGraph* graph) { return simt::replay(reinterpret_cast<simt::Graph*>(graph)); }
bool device_release_graph(DeviceGraph* graph) {
  return simt::release_graph(reinterpret_cast<simt::Graph*>(graph));
}
void device_schedule(std::uint64_t seed) { simt::schedule(seed); }
const char* device_error() { return simt::error(); }

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
