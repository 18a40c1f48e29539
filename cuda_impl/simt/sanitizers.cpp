#include "cuda_impl/simt/sanitizers.hpp"

#include <cstdio>

#include "cuda_impl/simt/executor.hpp"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_loadN(const void* address, std::size_t bytes);
__attribute__((weak)) void __asan_storeN(const void* address, std::size_t bytes);
__attribute__((weak)) void __msan_allocated_memory(const volatile void* address, std::size_t bytes);
// Called by the sanitizers. Not their death callback: that is one slot, and libFuzzer's.
void __asan_on_error();
void __ubsan_on_report();
}

namespace {

void say_who_runs() {
  const std::string who = sinktrap::simt::Executor::of_this_thread().who_runs();
  if (!who.empty()) std::fprintf(stderr, "simt: in %s\n", who.c_str());
}

}  // namespace

void __asan_on_error() { say_who_runs(); }
void __ubsan_on_report() { say_who_runs(); }

namespace sinktrap::simt {

bool address_sanitizer() { return __asan_poison_memory_region != nullptr; }
void poison(const void* address, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(address, bytes);
}
void unpoison(const void* address, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(address, bytes);
}
void uninitialised(const void* address, std::size_t bytes) {
  if (__msan_allocated_memory != nullptr) __msan_allocated_memory(address, bytes);
}
void check_address(const void* address, std::size_t bytes, bool write) {
  if (write && __asan_storeN != nullptr) __asan_storeN(address, bytes);
  if (!write && __asan_loadN != nullptr) __asan_loadN(address, bytes);
}

}  // namespace sinktrap::simt
