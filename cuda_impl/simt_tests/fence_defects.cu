// Order between blocks: the last block to finish adds up what all have written. Without one of its fences, or
// without the barriers around it, there is no order.
#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

constexpr unsigned kBlocks = 9, kThreads = 48;

enum class Missing { nothing, first_fence, second_fence, first_barrier, second_barrier };

__global__ void last_block(Missing missing, int* parts, int* ticket, int* out) {
  auto& last = shared<bool, struct LastBlockFlag>();
  const unsigned t = threadIdx.x;
  parts[blockIdx.x * kThreads + t] = 1;
  if (missing != Missing::first_barrier) __syncthreads();
  if (t == 0) {
    if (missing != Missing::first_fence) __threadfence();
    last = atomicAdd(ticket, 1) == static_cast<int>(gridDim.x) - 1;
    if (missing != Missing::second_fence) __threadfence();
  }
  int sum = 0;
  // Looks at the flag too early; what comes behind is in order.
  if (missing == Missing::second_barrier)
    parts[blockIdx.x * kThreads + t] = last;  // defect: last_block_second_barrier
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b * kThreads + t];  // defect: last_block
  out[t] = sum;
}

bool run_last_block(Missing missing) {
  const Zeros<int> parts(kBlocks * kThreads), ticket(1), out(kThreads);
  if (!launch({kBlocks, kThreads}, last_block, missing, parts.get(), ticket.get(), out.get())) return false;
  int sums[kThreads];
  read(sums, out.get(), sizeof sums);
  for (const int sum : sums)
    if (sum != static_cast<int>(kBlocks)) return false;
  return true;
}

// One block hands a value to another through a flag that is a volatile variable.
__global__ void volatile_flag(bool defect, int* value, volatile int* flag, int* out) {
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0) {
    *value = 7;
    if (!defect) __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    __threadfence();
    *out = *value;  // defect: volatile_flag
  }
}

// The same between the blocks of a grid with fences of one scope or the other, and within one block, where
// that of the block is enough.
__global__ void block_fence(bool between_blocks, bool wide, int* value, int* flag, int* out) {
  const bool sender = between_blocks ? blockIdx.x == 0 : threadIdx.x == 0;
  if (between_blocks ? threadIdx.x > 0 : threadIdx.x % 32 > 0) return;
  const auto fence = [wide] {
    if (wide)
      __threadfence();
    else
      __threadfence_block();
  };
  if (sender) {
    *value = 7;
    fence();
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) {
    }
    fence();
    *out = *value;  // defect: block_fence
  }
}

constexpr int kSteps = 40;
__global__ void count_and_look(volatile int* counter, int* seen) {
  int half_way = 0;
  for (int i = 1; i <= kSteps; ++i) {
    if (threadIdx.x == 0) {
      *counter = i;
    } else {
      const int now = *counter;
      half_way += now > 0 && now < kSteps;
    }
  }
  if (threadIdx.x == 1) *seen = half_way;
}

}  // namespace

int half_way_values() {
  const Zeros<int> counter(1), seen(1);
  int count = -1;
  if (launch({1, 2}, count_and_look, counter.get(), seen.get())) read(&count, seen.get(), sizeof count);
  return count;
}

std::vector<Defect> fence_defects() {
  static const char* const file = "fence_defects.cu";
  static const char* const in_global = "data race on device allocation";
  return {
      {"last_block", file, in_global,
       [](bool defect) { return run_last_block(defect ? Missing::first_fence : Missing::nothing); }},
      {"last_block", file, in_global,
       [](bool defect) { return run_last_block(defect ? Missing::second_fence : Missing::nothing); }},
      {"last_block", file, in_global,
       [](bool defect) { return run_last_block(defect ? Missing::first_barrier : Missing::nothing); }},
      {"last_block_second_barrier", file, "shared memory",
       [](bool defect) { return run_last_block(defect ? Missing::second_barrier : Missing::nothing); }},
      {"volatile_flag", file, in_global,
       [](bool defect) {
         const Zeros<int> value(1), flag(1), out(1);
         return launch({2, 1}, volatile_flag, defect, value.get(), flag.get(), out.get());
       }},
      {"block_fence", file, in_global,
       [](bool defect) {
         const Zeros<int> value(1), flag(1), out(1);
         return launch({2, 32}, block_fence, true, !defect, value.get(), flag.get(), out.get());
       }},
      // Between blocks it is the defect; in one block it is the twin.
      {"block_fence", file, in_global,
       [](bool defect) {
         const Zeros<int> value(1), flag(1), out(1);
         const unsigned blocks = defect ? 2 : 1;
         return launch({blocks, 64}, block_fence, defect, false, value.get(), flag.get(), out.get());
       }},
  };
}

}  // namespace sinktrap::simt
