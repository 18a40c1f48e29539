// The executor: each kind of defect is reported with its place, and the corrected twin of the same kernel is
// clean under many schedules; collectives and atomics give what CUDA gives.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "cuda_impl/simt/sanitizers.hpp"
#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {
namespace {

constexpr std::uint64_t kSchedules = 50;

// Device memory for a test, as ints.
class Memory {
 public:
  explicit Memory(std::size_t count)
      : count_(count), data_(static_cast<int*>(allocate(count * sizeof(int)))) {}
  ~Memory() {
    if (data_ != nullptr) release(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int* get() const { return data_; }
  void clear() { fill(data_, 0, count_ * sizeof(int)); }
  std::vector<int> values() const {
    std::vector<int> host(count_);
    read(host.data(), data_, count_ * sizeof(int));
    return host;
  }
  bool free() { return release(std::exchange(data_, nullptr)); }

 private:
  std::size_t count_;
  int* data_;
};

// The line of a marker comment would move with every edit: kernels note the line of the statement instead.
thread_local int g_line = 0;
#define AT_LINE (g_line = __LINE__)

std::string here() { return std::string("executor_test.cpp:") + std::to_string(g_line); }

// Launches under every schedule and expects success.
template <class... P, class... A>
void expect_clean(const Config& config, void (*kernel)(P...), A... arguments) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    EXPECT_TRUE(launch(config, kernel, arguments...)) << "schedule " << seed << ": " << error();
  }
  schedule(0);
}

// Launches under every schedule and expects a report that contains all the words.
template <class... P, class... A>
void expect_report(const std::vector<std::string>& words, const Config& config, void (*kernel)(P...),
                   A... arguments) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    g_line = 0;
    ASSERT_FALSE(launch(config, kernel, arguments...)) << "schedule " << seed;
    const std::string text = error();
    if (g_line != 0) {
      EXPECT_NE(text.find(here()), std::string::npos) << text;
    }
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  }
  schedule(0);
}

__global__ void divergent_barrier(bool defect) {
  // Three barriers in three places: that not all threads come to the same one is the defect.
  if (defect && threadIdx.x % 2 == 1) {  // NOLINT(bugprone-branch-clone)
    __syncthreads();
  } else if (defect) {
    AT_LINE, __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Executor, ReportsThreadsAtDifferentBarriers) {
  expect_report({"barrier divergence", "block (", "thread ("}, {2, 64}, divergent_barrier, true);
  expect_clean({2, 64}, divergent_barrier, false);
}

__global__ void early_return(bool defect) {
  if (defect && threadIdx.x == 5) return;
  AT_LINE, __syncthreads();
}

TEST(Executor, ReportsAThreadThatReturnsWhileOthersWait) {
  expect_report({"returned", "block (0,0,0)", "thread ("}, {1, 40}, early_return, true);
  expect_clean({3, 40}, early_return, false);
}

__global__ void partial_warp(bool defect, int* out) {
  if (defect && threadIdx.x == 3) return;
  AT_LINE, out[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 3);
}

TEST(Executor, ReportsACollectiveReachedByPartOfItsMask) {
  Memory out(32);
  expect_report({"__shfl_sync", "lane"}, {1, 32}, partial_warp, true, out.get());
  expect_clean({1, 32}, partial_warp, false, out.get());
  EXPECT_EQ(out.values(), std::vector<int>(32, 3));
}

__global__ void masks_differ(bool defect) {
  const unsigned mask = defect && threadIdx.x >= 16 ? 0xffff0001u : defect ? 0x0001ffffu : 0xffffffffu;
  AT_LINE, __syncwarp(mask);
}

TEST(Executor, ReportsLanesThatWaitUnderDifferentMasks) {
  expect_report({"__syncwarp", "mask"}, {1, 32}, masks_differ, true);
  expect_clean({1, 32}, masks_differ, false);
}

__global__ void lane_outside_mask(bool defect) { AT_LINE, __syncwarp(defect ? 0xfffffffeu : 0xffffffffu); }

TEST(Executor, ReportsALaneOutsideItsMask) {
  schedule(0);
  ASSERT_FALSE(launch({1, 32}, lane_outside_mask, true));
  EXPECT_NE(std::string(error()).find("not in its own mask"), std::string::npos) << error();
  EXPECT_NE(std::string(error()).find("thread (0,0,0)"), std::string::npos) << error();
}

__global__ void mixed_wait(bool defect) {
  if (defect && threadIdx.x == 0)
    AT_LINE, __syncwarp();
  else if (defect)
    __syncthreads();
}

TEST(Executor, ReportsADeadlock) {
  expect_report({"deadlock", "__syncwarp", "__syncthreads", "threads 0..0", "threads 1..31"}, {1, 32},
                mixed_wait, true);
  expect_clean({1, 32}, mixed_wait, false);
}

__global__ void spin(int* flag, bool defect) {
  if (threadIdx.x == 0) {
    while (atomicAdd(flag, 0) == 0) {
    }
  } else if (!defect) {
    atomicExch(flag, 1);
  }
}

TEST(Executor, ASpinWaitEndsAndALivelockIsReported) {
  Memory flag(1);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    schedule(seed);
    flag.clear();
    EXPECT_TRUE(launch({1, 2}, spin, flag.get(), false)) << error();
  }
  schedule(0);
  flag.clear();
  ASSERT_FALSE(launch({1, 2}, spin, flag.get(), true));
  EXPECT_NE(std::string(error()).find("livelock"), std::string::npos) << error();
}

__global__ void throwing(bool defect) {
  __syncwarp();
  if (defect && threadIdx.x == 7) throw std::runtime_error("seven");
  __syncwarp();
}

TEST(Executor, ReportsAnException) {
  expect_report({"exception", "seven", "thread (7,0,0)"}, {1, 32}, throwing, true);
  expect_clean({1, 32}, throwing, false);
}

// Each thread reads its neighbour's value. Without the barrier in the middle the neighbour may not have
// written yet.
__global__ void neighbour(bool defect, int* out) {
  auto& tile = shared<int[64], struct NeighbourTile>();
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (!defect) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

TEST(Executor, AMissingBarrierChangesTheResultUnderEverySchedule) {
  std::vector<int> expected;
  for (int b = 0; b < 3; ++b)
    for (int i = 0; i < 64; ++i) expected.push_back((i + 1) % 64);
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    Memory out(std::size_t{3} * 64);
    ASSERT_TRUE(launch({3, 64}, neighbour, false, out.get())) << error();
    EXPECT_EQ(out.values(), expected);
    ASSERT_TRUE(launch({3, 64}, neighbour, true, out.get())) << error();
    EXPECT_NE(out.values(), expected) << "schedule " << seed;
  }
  schedule(0);
}

__global__ void collectives(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  int sum = i;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  out[i] = sum;
  out[32 + i] = __shfl_sync(0xffffffffu, 10 * i, i + 1, 8);
  out[64 + i] = static_cast<int>(__ballot_sync(0xffffffffu, i % 3 == 0));
  out[96 + i] = -2;
  if (i < 4) out[96 + i] = __shfl_sync(0xfu, i, 9);  // lane 9 is outside the mask
}

TEST(Executor, ShufflesAndBallot) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    Memory out(128);
    ASSERT_TRUE(launch({1, 32}, collectives, out.get())) << error();
    const std::vector<int> got = out.values();
    unsigned thirds = 0;
    for (int i = 0; i < 32; i += 3) thirds |= 1u << i;
    for (int i = 0; i < 32; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(got[at], 31 * 32 / 2);
      EXPECT_EQ(got[32 + at], 10 * (i / 8 * 8 + (i + 1) % 8));
      EXPECT_EQ(got[64 + at], static_cast<int>(thirds));
      EXPECT_EQ(got[96 + at], i < 4 ? -1 : -2);  // 0xff bytes
    }
  }
  schedule(0);
}

__global__ void atomics(int* out, unsigned long long* smallest) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&out[0], i);
  atomicMax(&out[1], i);
  atomicMin(smallest, static_cast<unsigned long long>(1000 - i));
  while (atomicCAS(&out[2], 0, 1) != 0) {
  }
  out[3] = out[3] + 1;  // inside a lock
  atomicExch(&out[2], 0);
}

TEST(Executor, Atomics) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    Memory out(4), smallest(2);
    out.clear();
    ASSERT_TRUE(launch({5, 40}, atomics, out.get(), reinterpret_cast<unsigned long long*>(smallest.get())))
        << error();
    EXPECT_EQ(out.values(), (std::vector<int>{199 * 200 / 2, 199, 0, 200}));
    EXPECT_EQ(smallest.values(), (std::vector<int>{1000 - 199, 0}));
  }
  schedule(0);
}

__global__ void shared_contents(int* out) {
  auto& fixed = shared<float[8], struct ContentsTile>();
  auto* dynamic = dynamic_shared<float>();
  bool all_nan = true;
  for (int i = 0; i < 8; ++i) all_nan = all_nan && std::isnan(fixed[i]) && std::isnan(dynamic[i]);
  out[blockIdx.x] = all_nan;
  for (int i = 0; i < 8; ++i) fixed[i] = dynamic[i] = 0;  // the next block must not see this
}

TEST(Executor, SharedAndDeviceMemoryArePoisoned) {
  Memory out(10);
  EXPECT_EQ(out.values(), std::vector<int>(10, -1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(out.get()) % 256, 0u);
  ASSERT_TRUE(launch({10, 1, 8 * sizeof(float)}, shared_contents, out.get())) << error();
  EXPECT_EQ(out.values(), std::vector<int>(10, 1));
}

__global__ void shared_overrun(int index) {
  auto& tile = shared<int[8], struct OverrunTile>();
  static_cast<int*>(tile)[index] = 1;
}

TEST(Executor, ReportsAWriteOutsideSharedMemory) {
  if (address_sanitizer()) GTEST_SKIP() << "AddressSanitizer ends the process there (simt_address_test)";
  const auto words = std::vector<std::string>{"shared variable"};
  expect_report(words, {1, 1}, shared_overrun, 8);
  expect_report(words, {1, 1}, shared_overrun, -1);
  expect_clean({1, 1}, shared_overrun, 7);
}

__global__ void write_at(int* out, int index) { out[index] = 1; }

TEST(Executor, GuardsReportWhichAllocationAndWhichSide) {
  if (address_sanitizer()) GTEST_SKIP() << "AddressSanitizer ends the process there (simt_address_test)";
  Memory before(4), out(10), after(4);
  EXPECT_TRUE(launch({1, 1}, write_at, out.get(), 9)) << error();
  ASSERT_FALSE(launch({1, 1}, write_at, out.get(), 10));
  const std::string text = error();
  EXPECT_NE(text.find("write after device allocation"), std::string::npos) << text;
  EXPECT_NE(text.find("of 40 bytes"), std::string::npos) << text;
  EXPECT_TRUE(launch({1, 1}, write_at, out.get(), 0)) << "reported once: " << error();
  ASSERT_FALSE(launch({1, 1}, write_at, out.get(), -3));
  EXPECT_NE(std::string(error()).find("write before"), std::string::npos) << error();
  out.get()[11] = 5;  // outside a launch: found at release
  EXPECT_FALSE(out.free());
  EXPECT_NE(std::string(error()).find("write after"), std::string::npos) << error();
  EXPECT_TRUE(before.free());
}

TEST(Executor, RefusesWhatIsNotAnAllocation) {
  int local = 0;
  EXPECT_FALSE(release(&local));
  EXPECT_TRUE(release(nullptr));
  EXPECT_EQ(allocate(~std::uint64_t{0} / 2), nullptr);
  EXPECT_NE(std::string(error()).find("no memory"), std::string::npos);
}

TEST(Executor, RefusesConfigurationsThatCudaRefuses) {
  Memory out(1);
  for (const Config& config : {Config{0, 1, 0}, Config{1, 0, 0}, Config{1, 1025, 0},
                               Config{1, dim3(1024, 2), 0}, Config{dim3(1, 65536), 1, 0},
                               Config{1, dim3(1u << 31, 2, 1), 0}, Config{1, 1, std::size_t{228} * 1024}}) {
    EXPECT_FALSE(launch(config, write_at, out.get(), 0));
    EXPECT_NE(std::string(error()).find("invalid configuration"), std::string::npos) << error();
  }
  EXPECT_EQ(out.values(), std::vector<int>{-1});
}

__global__ void order(int* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  out[1 + atomicAdd(&out[0], 1)] = i;
}

TEST(Executor, ScheduleZeroAscendsAndSeedsGiveReproduciblePermutations) {
  const auto run = [](std::uint64_t seed) {
    schedule(seed);
    Memory out(1 + 7 * 33);
    out.clear();
    EXPECT_TRUE(launch({7, 33}, order, out.get())) << error();
    schedule(0);
    std::vector<int> values = out.values();
    values.erase(values.begin());
    return values;
  };
  std::vector<int> ascending(std::size_t{7} * 33);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(run(0), ascending);
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    const std::vector<int> got = run(seed);
    EXPECT_TRUE(std::is_permutation(got.begin(), got.end(), ascending.begin()));
    EXPECT_EQ(run(seed), got);
    orders.insert(got);
  }
  EXPECT_EQ(orders.size(), kSchedules);
}

// Each OS thread has an executor of its own; a thread that ends takes its fibers with it.
TEST(Executor, OsThreadsDoNotDisturbEachOther) {
  const auto work = [](std::uint64_t seed, bool* good) {
    *good = true;
    for (std::uint64_t i = 0; i < 20; ++i) {
      schedule(seed + i);
      Memory out(std::size_t{3} * 64);
      *good = *good && launch({3, 64}, neighbour, false, out.get()) && out.values()[0] == 1;
      *good = *good && !launch({1, 32}, lane_outside_mask, true) && out.free();
    }
  };
  bool first = false, second = false;
  std::thread a(work, 1, &first), b(work, 100, &second);
  a.join();
  b.join();
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

__global__ void indices(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  __syncthreads();
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

TEST(Executor, EveryThreadOfAThreeDimensionalGridRunsOnce) {
  for (std::uint64_t seed : {0, 1, 2}) {
    schedule(seed);
    Memory out(std::size_t{2} * 3 * 4 * 5 * 3 * 2);
    out.clear();
    ASSERT_TRUE(launch({dim3(2, 3, 4), dim3(5, 3, 2)}, indices, out.get())) << error();
    EXPECT_EQ(out.values(), std::vector<int>(std::size_t{2} * 3 * 4 * 5 * 3 * 2, 1));
  }
  schedule(0);
}

}  // namespace
}  // namespace sinktrap::simt
