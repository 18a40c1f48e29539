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

}  // namespace

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
void device_schedule(std::uint64_t seed) { simt::schedule(seed); }
const char* device_error() { return simt::error(); }

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
