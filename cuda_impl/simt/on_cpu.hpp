// The CPU side of simt.hpp: CUDA's names, and the executor behind them (executor.hpp). docs/simt.md shows
// what it reports, and says what it does not model.
//
// What the executor adds to CUDA, always on:
//  - shared memory and fresh device memory hold 0xff bytes (NaN in every storage type, -1 as an integer);
//  - guard bytes lie on both sides of each device allocation and of each shared variable, checked after each
//    launch, at release, and when a block ends; under AddressSanitizer they are poisoned instead, so that
//    reads are found too;
//  - a launch fails, with file, line, block and thread in error(), when threads of a block meet different
//    __syncthreads, when one returns while others wait, when a collective is reached by part of its mask,
//    when nothing can run any more, and when an exception leaves the kernel. It neither crashes nor hangs;
//    only a spin wait that uses no atomic cannot be seen;
//  - with schedule(seed), seed > 0, blocks interleave and every choice of what runs next is random; seed 0 is
//    CUDA's usual ascending order;
//  - where the race runtime (race.hpp) is linked: data races and reads of unwritten shared memory fail the
//    launch, and with a seed threads are interrupted between memory accesses.
// State is kept for each OS thread (device allocations: for the process), so processes and threads do not
// disturb each other. A long launch with seed 0 and without the race runtime uses all processors, block by
// block; every other launch uses one OS thread.
//
// Stricter than CUDA on purpose: a lane that has returned must not be named in a mask, and the lanes of a
// collective must be at the same source line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace sinktrap::simt {
inline namespace cpu {

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

// Set by the executor whenever it changes to another thread.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

struct Config {
  dim3 grid, block;
  std::size_t dynamic_shared = 0;  // bytes
};

// A place in the source, for reports.
struct Site {
  const char* file;
  int line;
};

namespace detail {
enum class WarpOperation : std::uint8_t { sync, shuffle, shuffle_xor, ballot, ldmatrix, mma };
// async_write: a copy has been issued and may land at any time; async_landing: it is now known to have
// landed.
enum class Access : std::uint8_t { read, write, atomic_read, atomic, async_write, async_landing };

bool run(const Config& config, void (*call)(void*), void* closure);
void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment);
void* dynamic_shared_memory();
void block_barrier(Site site);
// Waits for the lanes of the mask. shuffle, shuffle_xor: the value given by lane `source`; ballot: the lanes
// of the mask whose value is not 0; ldmatrix, mma: the value is the address of a WarpRecord (ptx_on_cpu.hpp).
std::uint64_t warp_collective(WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                              unsigned source, Site site);
unsigned lane();
// Before each atomic: tells the race runtime, and is a point at which another thread may run.
void atomic_point(const void* address, std::size_t bytes, Site site);
void fence(bool block_scope);
// Tells the race runtime of an access that the executor makes for the kernel (copies, fragments): the
// compiler does not see those.
void touch(Access kind, const void* address, std::size_t bytes, Site site);
// True between begin_capture and end_capture on this OS thread.
bool capturing();
// Puts a launch into the graph that is being captured: `closure` holds its arguments as they are now.
bool record(const Config& config, void (*call)(void*), std::shared_ptr<void> closure);
}  // namespace detail

const char* error();
void schedule(std::uint64_t seed);
bool present();
void* allocate(std::uint64_t bytes);  // aligned to 256 bytes; null when there is no memory
bool release(void* pointer);          // false: not an allocation, or its guards were overwritten
bool write(void* device, const void* host, std::uint64_t bytes);
bool read(void* host, const void* device, std::uint64_t bytes);
bool copy(void* to, const void* from, std::uint64_t bytes);
bool fill(void* device, int byte, std::uint64_t bytes);
bool synchronise();

// Graphs, as CUDA has them: simt.hpp says what they promise.
struct Graph;
bool begin_capture();
Graph* end_capture();
bool replay(Graph* graph);
bool release_graph(Graph* graph);

template <class... Parameters, class... Arguments>
bool launch(const Config& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  auto closure = [kernel, ... values = static_cast<Parameters>(std::forward<Arguments>(arguments))] {
    kernel(values...);
  };
  using Closure = decltype(closure);
  const auto call = [](void* c) { (*static_cast<Closure*>(c))(); };
  if (detail::capturing()) return detail::record(config, call, std::make_shared<Closure>(closure));
  return detail::run(config, call, &closure);
}

template <class T, class Tag>
T& shared() {
  static const char key = 0;  // its address names the variable
  return *static_cast<T*>(detail::shared_variable(&key, sizeof(T), alignof(T)));
}
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(detail::dynamic_shared_memory());
}

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::block_barrier({file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  detail::warp_collective(detail::WarpOperation::sync, mask, 0, 0, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return static_cast<unsigned>(
      detail::warp_collective(detail::WarpOperation::ballot, mask, predicate != 0, 0, {file, line}));
}

namespace detail {
template <class T>
T shuffle(WarpOperation operation, unsigned mask, T value, unsigned source, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_collective(operation, mask, bits, source, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace detail

// width: a power of two up to 32; the warp is cut into groups of that many lanes (CUDA C++ Programming Guide,
// "Warp Shuffle Functions"). Reading a lane outside the mask gives 0xff bytes: CUDA leaves the value
// undefined.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  const unsigned group = static_cast<unsigned>(width) - 1;
  return detail::shuffle(detail::WarpOperation::shuffle, mask, value,
                         (detail::lane() & ~group) | (static_cast<unsigned>(source) & group), {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const unsigned self = detail::lane(), last = self | (static_cast<unsigned>(width) - 1);
  const unsigned source = self ^ static_cast<unsigned>(lane_mask);
  return detail::shuffle(detail::WarpOperation::shuffle_xor, mask, value, source > last ? self : source,
                         {file, line});
}

// Real atomics, since a long launch may use several OS threads. The race runtime learns of them from
// atomic_point and not from the compiler.
template <class T, class Change>
__attribute__((no_sanitize("thread"))) T atomic_change(T* address, Change change, Site site) {
  detail::atomic_point(address, sizeof(T), site);
  T old, next;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    next = change(old);
  } while (!__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return atomic_change(
      address, [value](T old) { return static_cast<T>(old + value); }, Site{file, line});
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return atomic_change(
      address, [value](T old) { return value < old ? value : old; }, Site{file, line});
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return atomic_change(
      address, [value](T old) { return old < value ? value : old; }, Site{file, line});
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
             int line = __builtin_LINE()) {
  return atomic_change(
      address, [value](T) { return value; }, Site{file, line});
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value,
            const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return atomic_change(
      address, [compare, value](T old) { return old == compare ? value : old; }, Site{file, line});
}
inline void __threadfence() { detail::fence(false); }
inline void __threadfence_block() { detail::fence(true); }

}  // namespace cpu
}  // namespace sinktrap::simt

// CUDA's names are global.
using sinktrap::simt::cpu::__ballot_sync;
using sinktrap::simt::cpu::__shfl_sync;
using sinktrap::simt::cpu::__shfl_xor_sync;
using sinktrap::simt::cpu::__syncthreads;
using sinktrap::simt::cpu::__syncwarp;
using sinktrap::simt::cpu::__threadfence;
using sinktrap::simt::cpu::__threadfence_block;
using sinktrap::simt::cpu::atomicAdd;
using sinktrap::simt::cpu::atomicCAS;
using sinktrap::simt::cpu::atomicExch;
using sinktrap::simt::cpu::atomicMax;
using sinktrap::simt::cpu::atomicMin;
using sinktrap::simt::cpu::blockDim;
using sinktrap::simt::cpu::blockIdx;
using sinktrap::simt::cpu::dim3;
using sinktrap::simt::cpu::gridDim;
using sinktrap::simt::cpu::threadIdx;
