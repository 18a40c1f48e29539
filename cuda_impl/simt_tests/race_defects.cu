// Accesses that nothing orders: found by the race runtime.
#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

constexpr unsigned kThreads = 320;  // more than the 256 that libtsan can tell apart

__global__ void missing_barrier(bool defect, int* out) {
  auto& tile = shared<int[kThreads], struct MissingBarrierTile>();
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  if (!defect) __syncthreads();
  out[blockIdx.x * kThreads + t] = tile[(t + 1) % kThreads];  // defect: missing_barrier
}

__global__ void write_after_read(bool defect, int* out) {
  auto& tile = shared<int[kThreads], struct WriteAfterReadTile>();
  const unsigned t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    tile[t] = static_cast<int>(t) + i;  // defect: write_after_read
    __syncthreads();
    sum += tile[(t + 1) % kThreads];
    if (!defect) __syncthreads();
  }
  out[t] = sum;
}

__global__ void missing_syncwarp(bool defect, int* out) {
  auto& tile = shared<int[32], struct MissingSyncwarpTile>();
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  if (!defect) __syncwarp();
  out[t] = tile[t ^ 1u];  // defect: missing_syncwarp
}

// One meeting of the lanes orders what was before it, and nothing behind.
__global__ void missing_second_syncwarp(bool defect, int* out) {
  auto& tile = shared<int[32], struct SecondSyncwarpTile>();
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  __syncwarp();
  const int neighbour = tile[t ^ 1u];
  if (!defect) __syncwarp();
  tile[t] = neighbour + 1;  // defect: missing_second_syncwarp
  out[t] = tile[t];
}

__global__ void unwritten_device(bool defect, short* values, int* out) {
  const unsigned t = threadIdx.x;
  if (!defect || t != kThreads - 1) values[t] = 1;
  __syncthreads();
  out[t] = values[t];  // defect: unwritten_device
}

// In the ascending order every read comes before the write: only who remembers readers can tell.
__global__ void write_after_all_have_read(bool defect, int* out) {
  auto& value = shared<int, struct ReadByAll>();
  const unsigned t = threadIdx.x;
  if (t == 0) value = 1;
  __syncthreads();
  out[t] = value;
  if (!defect) __syncthreads();
  if (t == kThreads - 2) value = 2;  // defect: write_after_all_have_read
}

// A shuffle brings lanes together, but promises nothing about memory.
__global__ void shuffle_is_no_barrier(bool defect, int* out) {
  auto& tile = shared<int[32], struct ShuffleTile>();
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  const int v = __shfl_xor_sync(0xffffffffu, static_cast<int>(t), 1);
  if (!defect) __syncwarp();
  out[t] = v + tile[t ^ 1u];  // defect: shuffle_is_no_barrier
}

__global__ void unwritten_shared(bool defect, int* out) {
  auto& tile = shared<short[kThreads], struct UnwrittenTile>();
  const unsigned t = threadIdx.x;
  if (t % 2 == 0 || !defect) tile[t] = 1;
  __syncthreads();
  out[t] = tile[t];  // defect: unwritten_shared
}

// Shared memory begins afresh in every block, whatever an earlier one has left there.
__global__ void unwritten_in_later_block(bool defect, int* out) {
  auto& tile = shared<int[32], struct LaterBlockTile>();
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0 || !defect) tile[t] = 1;
  __syncthreads();
  out[blockIdx.x * 32 + t] = tile[t];  // defect: unwritten_in_later_block
}

__global__ void inter_block(bool defect, int* out) {
  __syncthreads();                                                   // of the block only
  if (threadIdx.x == blockIdx.x) out[defect ? 0u : blockIdx.x] = 1;  // defect: inter_block
}

// Neighbouring halves of one word are no race; the same half is.
__global__ void neighbours(bool defect, short* out) {
  const unsigned t = threadIdx.x + blockIdx.x * blockDim.x;
  out[defect ? t / 2 : t] = static_cast<short>(t);  // defect: neighbours
}

__global__ void plain_beside_atomic(bool defect, int* out) {
  if (threadIdx.x > 0 || blockIdx.x > 0)
    atomicAdd(out, 1);
  else if (!defect)
    atomicExch(out, 1);
  else
    *out = 1;  // defect: plain_beside_atomic
}

__global__ void plain_read_beside_atomic(bool defect, int* out) {
  const int before = atomicAdd(out, 1);
  out[1 + threadIdx.x] = defect ? *out : before;  // defect: plain_read_beside_atomic
}

// The compiler makes one call to memcpy of such an assignment.
struct Large {
  int v[64];
};
__global__ void copied_structure(bool defect, Large* out) {
  auto& tile = shared<Large[2], struct CopiedTile>();
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) tile[0].v[i] = tile[1].v[i] = 1;
  if (!defect) __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = tile[threadIdx.x];  // defect: copied_structure
}

}  // namespace

std::vector<Defect> race_defects() {
  static const char* const file = "race_defects.cu";
  static const char* const in_shared = "data race on shared memory";
  static const char* const in_global = "data race on device allocation";
  return {
      {"missing_barrier", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(2 * kThreads);
         return launch({2, kThreads}, missing_barrier, defect, out.get());
       }},
      {"write_after_read", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(kThreads);
         return launch({1, kThreads}, write_after_read, defect, out.get());
       }},
      {"missing_syncwarp", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(32);
         return launch({1, 32}, missing_syncwarp, defect, out.get());
       }},
      {"missing_second_syncwarp", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(32);
         return launch({1, 32}, missing_second_syncwarp, defect, out.get());
       }},
      {"write_after_all_have_read", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(kThreads);
         return launch({1, kThreads}, write_after_all_have_read, defect, out.get());
       }},
      {"shuffle_is_no_barrier", file, in_shared,
       [](bool defect) {
         const Zeros<int> out(32);
         return launch({1, 32}, shuffle_is_no_barrier, defect, out.get());
       }},
      {"unwritten_shared", file, "read of unwritten shared memory",
       [](bool defect) {
         const Zeros<int> out(kThreads);
         return launch({1, kThreads}, unwritten_shared, defect, out.get());
       }},
      {"unwritten_in_later_block", file, "read of unwritten shared memory",
       [](bool defect) {
         const Zeros<int> out(2 * 32);
         return launch({2, 32}, unwritten_in_later_block, defect, out.get());
       }},
      {"unwritten_device", file, "read of unwritten device allocation",
       [](bool defect) {
         const Zeros<int> out(kThreads);
         auto* values = static_cast<short*>(allocate(kThreads * sizeof(short)));
         const bool ok = launch({1, kThreads}, unwritten_device, defect, values, out.get());
         return release(values) && ok;
       }},
      {"inter_block", file, in_global,
       [](bool defect) {
         const Zeros<int> out(20);
         return launch({20, 32}, inter_block, defect, out.get());
       }},
      {"neighbours", file, in_global,
       [](bool defect) {
         const Zeros<short> out(2 * 32);
         return launch({2, 32}, neighbours, defect, out.get());
       }},
      {"plain_beside_atomic", file, in_global,
       [](bool defect) {
         const Zeros<int> out(1);
         return launch({2, 32}, plain_beside_atomic, defect, out.get());
       }},
      {"plain_read_beside_atomic", file, in_global,
       [](bool defect) {
         const Zeros<int> out(1 + 40);
         return launch({1, 40}, plain_read_beside_atomic, defect, out.get());
       }},
      {"copied_structure", file, in_shared,
       [](bool defect) {
         const Zeros<Large> out(2);
         return launch({1, 40}, copied_structure, defect, out.get());
       }},
  };
}

}  // namespace sinktrap::simt
