// The functions that -fsanitize=thread makes compilers call (g++ 12 and clang 14; LLVM,
// compiler-rt/lib/tsan/rtl/ tsan_interface.h), as the race runtime's eyes. Program parts that are
// instrumented and run outside of kernels come through here too, and find no runtime.
#include <cstdint>
#include <cstring>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/race.hpp"

namespace {

using sinktrap::simt::Executor;
using sinktrap::simt::RaceRuntime;
using sinktrap::simt::t_race;
using Access = sinktrap::simt::detail::Access;

// Before an access.
inline void before(Access kind, const volatile void* address, std::size_t bytes, const void* pc) {
  RaceRuntime* race = t_race;
  if (race == nullptr || race->is_private(address)) return;
  // Nothing may run between what is noted of an access and the access.
  if (race->interrupt_here()) Executor::of_this_thread().interrupt();
  t_race = nullptr;  // the runtime's own work must not come back here
  race->access(kind, const_cast<const void*>(address), bytes, pc);
  if (kind == Access::atomic || kind == Access::atomic_read)
    race->meet_at(const_cast<const void*>(address), kind);
  t_race = race;
}

// CUDA treats a volatile variable like a relaxed atomic. Who reads one may be waiting for another thread, in
// any schedule.
inline void before_volatile_read(const volatile void* address, std::size_t bytes, const void* pc) {
  if (t_race == nullptr) return;
  Executor::of_this_thread().volatile_read();
  before(Access::atomic_read, address, bytes, pc);
}

}  // namespace

#define SINKTRAP_PC __builtin_return_address(0)
#define SINKTRAP_ACCESSES(bytes)                                                                          \
  void __tsan_read##bytes(void* p) { before(Access::read, p, bytes, SINKTRAP_PC); }                       \
  void __tsan_write##bytes(void* p) { before(Access::write, p, bytes, SINKTRAP_PC); }                     \
  void __tsan_unaligned_read##bytes(void* p) { before(Access::read, p, bytes, SINKTRAP_PC); }             \
  void __tsan_unaligned_write##bytes(void* p) { before(Access::write, p, bytes, SINKTRAP_PC); }           \
  void __tsan_volatile_read##bytes(void* p) { before_volatile_read(p, bytes, SINKTRAP_PC); }              \
  void __tsan_volatile_write##bytes(void* p) { before(Access::atomic, p, bytes, SINKTRAP_PC); }           \
  void __tsan_unaligned_volatile_read##bytes(void* p) { before_volatile_read(p, bytes, SINKTRAP_PC); }    \
  void __tsan_unaligned_volatile_write##bytes(void* p) { before(Access::atomic, p, bytes, SINKTRAP_PC); } \
  void __tsan_read_write##bytes(void* p) {                                                                \
    before(Access::read, p, bytes, SINKTRAP_PC);                                                          \
    before(Access::write, p, bytes, SINKTRAP_PC);                                                         \
  }

#define SINKTRAP_FETCH(bits, name, operation)                                             \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile std::uint##bits##_t* p, \
                                                         std::uint##bits##_t v, int) {    \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                     \
    return __atomic_fetch_##operation(p, v, __ATOMIC_SEQ_CST);                            \
  }
#define SINKTRAP_ATOMICS(bits)                                                                               \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* p, int) {               \
    before(Access::atomic_read, p, bits / 8, SINKTRAP_PC);                                                   \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                          \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* p, std::uint##bits##_t v, int) {            \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                                        \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                          \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* p, std::uint##bits##_t v, \
                                                     int) {                                                  \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                                        \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                          \
  SINKTRAP_FETCH(bits, add, add)                                                                             \
  SINKTRAP_FETCH(bits, sub, sub)                                                                             \
  SINKTRAP_FETCH(bits, and, and)                                                                             \
  SINKTRAP_FETCH(bits, or, or)                                                                               \
  SINKTRAP_FETCH(bits, xor, xor)                                                                             \
  SINKTRAP_FETCH(bits, nand, nand)                                                                           \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* p, std::uint##bits##_t* c, \
                                                    std::uint##bits##_t v, int, int) {                       \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                                        \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                          \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* p, std::uint##bits##_t* c,   \
                                                  std::uint##bits##_t v, int, int) {                         \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                                        \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                          \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                            \
      volatile std::uint##bits##_t* p, std::uint##bits##_t c, std::uint##bits##_t v, int, int) {             \
    before(Access::atomic, p, bits / 8, SINKTRAP_PC);                                                        \
    __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
    return c;                                                                                                \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) { sinktrap::simt::detail::fence(false); }
void __tsan_atomic_signal_fence(int) {}

SINKTRAP_ACCESSES(1)
SINKTRAP_ACCESSES(2)
SINKTRAP_ACCESSES(4)
SINKTRAP_ACCESSES(8)
SINKTRAP_ACCESSES(16)
void __tsan_read_range(void* p, unsigned long bytes) { before(Access::read, p, bytes, SINKTRAP_PC); }
void __tsan_write_range(void* p, unsigned long bytes) { before(Access::write, p, bytes, SINKTRAP_PC); }

SINKTRAP_ATOMICS(8)
SINKTRAP_ATOMICS(16)
SINKTRAP_ATOMICS(32)
SINKTRAP_ATOMICS(64)

// Compilers turn copies of structures and loops into these calls, and do not instrument them. The link option
// --wrap sends a program's calls here.
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int byte, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  before(Access::read, from, bytes, SINKTRAP_PC);
  before(Access::write, to, bytes, SINKTRAP_PC);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  before(Access::read, from, bytes, SINKTRAP_PC);
  before(Access::write, to, bytes, SINKTRAP_PC);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int byte, std::size_t bytes) {
  before(Access::write, to, bytes, SINKTRAP_PC);
  return __real_memset(to, byte, bytes);
}
}
