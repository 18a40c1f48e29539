// The GPU side of simt.hpp: the CUDA runtime behind the common spelling. Only nvcc includes this.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace sinktrap::simt {
inline namespace gpu {

struct Config {
  dim3 grid, block;
  std::size_t dynamic_shared = 0;
};

inline std::string& error_text() {
  static thread_local std::string text;
  return text;
}
inline const char* error() { return error_text().c_str(); }

// Turns a CUDA result into true or false and keeps the call's name and the error's text.
inline bool succeeded(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return true;
  error_text() = std::string(call) + ": " + cudaGetErrorName(result) + ": " + cudaGetErrorString(result);
  cudaGetLastError();  // an error that is not sticky would otherwise be reported once more by the next launch
  return false;
}

inline void schedule(std::uint64_t) {}

inline bool present() {
  int count = 0;
  if (!succeeded(cudaGetDeviceCount(&count), "cudaGetDeviceCount")) return false;
  if (count > 0) return true;
  error_text() = "cudaGetDeviceCount: no device";
  return false;
}

inline void* allocate(std::uint64_t bytes) {
  void* pointer = nullptr;
  const std::uint64_t some =
      bytes > 0 ? bytes : 1;  // cudaMalloc answers null to 0 bytes; null means failure here
  return succeeded(cudaMalloc(&pointer, some), "cudaMalloc") ? pointer : nullptr;
}
inline bool release(void* pointer) { return succeeded(cudaFree(pointer), "cudaFree"); }
inline bool write(void* device, const void* host, std::uint64_t bytes) {
  return succeeded(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to device");
}
inline bool read(void* host, const void* device, std::uint64_t bytes) {
  return succeeded(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to host");
}
inline bool copy(void* to, const void* from, std::uint64_t bytes) {
  return succeeded(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy on device");
}
inline bool fill(void* device, int byte, std::uint64_t bytes) {
  return succeeded(cudaMemset(device, byte, bytes), "cudaMemset");
}
inline bool synchronise() { return succeeded(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

template <class... Parameters, class... Arguments>
bool launch(const Config& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  cudaLaunchConfig_t raw{};
  raw.gridDim = config.grid;
  raw.blockDim = config.block;
  raw.dynamicSmemBytes = config.dynamic_shared;
  return succeeded(
      cudaLaunchKernelEx(&raw, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
      "cudaLaunchKernelEx");
}

template <class T, class Tag>
__device__ __forceinline__ T& shared() {
  __shared__ T variable;
  return variable;
}
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char sinktrap_dynamic_shared[];
  return reinterpret_cast<T*>(sinktrap_dynamic_shared);
}

}  // namespace gpu
}  // namespace sinktrap::simt
