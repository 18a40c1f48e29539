// A launch that takes long is shared by several OS threads, without a difference in what it gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

// Long enough for helpers to be asked in.
__global__ void long_work(float* out, unsigned long long* sum) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = static_cast<float>(i);
  for (int k = 0; k < 3000; ++k) v = v * 0.999f + 0.5f;
  __syncthreads();
  out[i] = v;
  atomicAdd(sum, static_cast<unsigned long long>(i));
}

// Which OS threads have run a block, by a variable that each has of its own.
__global__ void who_worked(float* out, unsigned long long* threads) {
  static thread_local bool counted = false;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = static_cast<float>(i);
  for (int k = 0; k < 4000; ++k) v = v * 0.999f + 0.5f;
  out[i] = v;
  if (!counted) atomicAdd(threads, 1ull);
  counted = true;
}

TEST(OsThreads, ALongLaunchUsesMoreThanOne) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const Zeros<float> out(std::uint64_t{400} * 32);
  const Zeros<unsigned long long> threads(1);
  unsigned long long count = 0;
  // A helper that the machine does not let run in time misses a launch, not all of them.
  for (int i = 0; i < 20 && count < 2; ++i) {
    ASSERT_TRUE(launch({400, 32}, who_worked, out.get(), threads.get())) << error();
    read(&count, threads.get(), sizeof count);
  }
  EXPECT_GE(count, 2u);
}

TEST(OsThreads, ManyBlocksOnSeveralOsThreadsGiveWhatOneThreadGives) {
  constexpr std::uint64_t kCount = std::uint64_t{200} * 64;
  std::vector<float> alone(kCount), together(kCount);
  const Zeros<float> out(kCount);
  const Zeros<unsigned long long> sum(1);
  const auto run = [&](std::uint64_t seed, std::vector<float>& values) {
    schedule(seed);
    fill(sum.get(), 0, sizeof(unsigned long long));
    EXPECT_TRUE(launch({200, 64}, long_work, out.get(), sum.get())) << error();
    read(values.data(), out.get(), kCount * sizeof(float));
    unsigned long long total = 0;
    read(&total, sum.get(), sizeof total);
    EXPECT_EQ(total, kCount * (kCount - 1) / 2);
    schedule(0);
  };
  run(1, alone);  // a random schedule stays on one OS thread
  for (int i = 0; i < 3; ++i) {
    std::fill(together.begin(), together.end(), 0.0f);
    run(0, together);
    EXPECT_EQ(together, alone);
  }
}

__global__ void late_defect(float* out, bool defect) {
  float v = static_cast<float>(threadIdx.x);
  for (int k = 0; k < 2000; ++k) v = v * 0.999f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
  if (defect && blockIdx.x > 20 && threadIdx.x == 3) return;
  __syncthreads();
}

TEST(OsThreads, AFaultOnAnyOsThreadFailsTheLaunch) {
  const Zeros<float> out(std::uint64_t{200} * 32);
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(launch({200, 32}, late_defect, out.get(), true));
    EXPECT_NE(std::string(error()).find("returned"), std::string::npos) << error();
    ASSERT_TRUE(launch({200, 32}, late_defect, out.get(), false)) << error();
  }
}

}  // namespace
}  // namespace sinktrap::simt
