// The CPU side of ptx.hpp. What touches the kernel's memory on behalf of one thread does so here, in code
// that is compiled with the kernel, so that sanitizers see it and name the kernel's line; the emulation
// itself is in ptx.cpp.
#pragma once
#include <cstdint>
#include <cstring>

#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {
inline namespace cpu {
namespace detail {

// What one lane hands to an instruction that the whole warp executes. The last lane to arrive applies it for
// all: records[lane] for 32 lanes.
struct WarpRecord {
  void (*apply)(WarpRecord* const* records);
};
struct MmaRecord : WarpRecord {
  const std::uint32_t *a, *b;
  float* d;
};
struct LdmatrixRecord : WarpRecord {
  const void* row;
  std::uint32_t* registers;
  int count;
  bool transposed;
};

void async_copy(void* shared, const void* global, std::uint32_t bytes, Site site);
void async_commit();
void async_wait(unsigned pending);
void ldmatrix(std::uint32_t* registers, int count, bool transposed, const void* row, Site site);
void mma(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bf16, Site site);

// A read of the first and the last byte by the calling thread, for AddressSanitizer to look at. The race
// runtime is told of the whole access by the executor, with its site; to it a volatile read would be an
// atomic.
__attribute__((no_sanitize("thread"))) inline void touch(const void* pointer, std::size_t bytes) {
  const auto* p = static_cast<const volatile unsigned char*>(pointer);
  static_cast<void>(p[0]);
  static_cast<void>(p[bytes - 1]);
}

}  // namespace detail

template <int kBytes>
void cp_async(void* shared, const void* global, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  detail::touch(global, kBytes);
  std::memset(shared, 0xff, kBytes);
  detail::async_copy(shared, global, kBytes, {file, line});
}
inline void cp_async_commit() { detail::async_commit(); }
template <int kPending>
void cp_async_wait() {
  detail::async_wait(kPending);
}

// A lane's row counts only where there are matrices for it: 16 lanes for x2.
inline void ldmatrix_x2(std::uint32_t (&r)[2], const void* row, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  if (detail::lane() < 16) detail::touch(row, 16);
  detail::ldmatrix(r, 2, false, row, {file, line});
}
inline void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  if (detail::lane() < 16) detail::touch(row, 16);
  detail::ldmatrix(r, 2, true, row, {file, line});
}
inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  detail::touch(row, 16);
  detail::ldmatrix(r, 4, false, row, {file, line});
}
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  detail::touch(row, 16);
  detail::ldmatrix(r, 4, true, row, {file, line});
}

inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::mma(d, a, b, true, {file, line});
}
inline void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::mma(d, a, b, false, {file, line});
}

}  // namespace cpu
}  // namespace sinktrap::simt
