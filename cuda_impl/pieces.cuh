// What the forward kernels share: rounding at a seam, the activation, the factor of a token, and reads of
// eight elements where a row may end before them.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cuda_impl/number.cuh"
#include "cuda_impl/records.hpp"
#include "cuda_impl/simt/ptx.hpp"
#include "cuda_impl/simt/simt.hpp"

// Loops over arrays that have to stay in registers.
#if defined(__CUDACC__)
#define SINKTRAP_UNROLL _Pragma("unroll")
#else
#define SINKTRAP_UNROLL
#endif

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

template <class E>
__device__ inline float seam(const ForwardView& f, unsigned bit, float value) {
  return f.seams & bit ? E::load(E::store(value)) : value;
}

// The slot of a token; -1 for the base model and for tokens past the last.
__device__ inline std::int64_t slot_of(const ForwardView& f, std::int64_t token) {
  return token < f.T ? f.token_slot[token] : -1;
}

// Whether `out` may be written.
__device__ inline bool permitted(const ForwardView& f) {
  return f.permit == nullptr || f.permit->code == SINKTRAP_OK;
}

template <class E>
__device__ inline float gamma_of(const ForwardView& f, std::int64_t token, std::int64_t e) {
  const std::int64_t i = token * f.n + e;
  return f.gammas_f32 ? static_cast<const float*>(f.gammas)[i]
                      : E::load(static_cast<const typename E::Bits*>(f.gammas)[i]);
}

// act of one feature of one expert from gate and up, base and delta already added.
template <class E>
__device__ inline float activation(const ForwardView& f, float gate, float up, float gamma) {
  const float g = seam<E>(f, SINKTRAP_SEAM(Y), gate), u = seam<E>(f, SINKTRAP_SEAM(Y), up);
  const float s = seam<E>(f, SINKTRAP_SEAM(SILU), ordered_silu(g));
  const float p = seam<E>(f, SINKTRAP_SEAM(PRODUCT), s * u);
  return seam<E>(f, SINKTRAP_SEAM(ACT), p * gamma);
}

// Eight 16-bit elements: the unit in which rows are read.
inline constexpr int kVector = 8;
template <class Bits>
struct alignas(16) Eight {
  Bits v[kVector];
};

// The widest access, in bytes, that is aligned at `pointer` and at every multiple of the strides (in
// elements of `element` bytes) from it: 16, 8, 4 or 2.
__host__ inline std::int32_t access_width(const void* pointer, std::int64_t element,
                                          std::initializer_list<std::int64_t> strides) {
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(pointer) | 16;
  for (std::int64_t stride : strides) bits |= static_cast<std::uint64_t>(stride * element);
  return static_cast<std::int32_t>(bits & (~bits + 1));
}

// Elements [0, valid) at `from`, zeros behind them. Nothing at or past from + valid is read; width as
// access_width gives it.
template <class Bits>
__device__ inline Eight<Bits> load_eight(const Bits* from, std::int64_t valid, int width) {
  Eight<Bits> eight;
  if (valid >= kVector && width == 16) return *reinterpret_cast<const Eight<Bits>*>(from);
  for (int i = 0; i < kVector; ++i) eight.v[i] = i < valid ? from[i] : Bits{0};
  return eight;
}

// The same into shared memory, through cp.async where alignment allows it; `to` is aligned to 16 bytes. In
// either case `to` may be read after the thread's cp_async_wait and a barrier.
template <class Bits>
__device__ inline void copy_eight(Bits* to, const Bits* from, std::int64_t valid, int width) {
  if (valid >= kVector && width == 16) {
    simt::cp_async<16>(to, from);
  } else if (valid >= kVector && width == 8) {
    for (int i = 0; i < kVector; i += 4) simt::cp_async<8>(to + i, from + i);
  } else if (valid >= kVector && width == 4) {
    for (int i = 0; i < kVector; i += 2) simt::cp_async<4>(to + i, from + i);
  } else {
    *reinterpret_cast<Eight<Bits>*>(to) = load_eight(from, valid, 2);
  }
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
