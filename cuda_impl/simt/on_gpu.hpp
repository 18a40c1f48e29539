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

// The stream that is being captured; null: none is, and everything goes to the default stream, which cannot
// be captured (CUDA C++ Programming Guide, "Stream Capture").
inline cudaStream_t& capture_stream() {
  static thread_local cudaStream_t stream = nullptr;
  return stream;
}

inline bool copy(void* to, const void* from, std::uint64_t bytes) {
  if (capture_stream() != nullptr)
    return succeeded(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, capture_stream()),
                     "cudaMemcpyAsync on device");
  return succeeded(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy on device");
}
inline bool fill(void* device, int byte, std::uint64_t bytes) {
  if (capture_stream() != nullptr)
    return succeeded(cudaMemsetAsync(device, byte, bytes, capture_stream()), "cudaMemsetAsync");
  return succeeded(cudaMemset(device, byte, bytes), "cudaMemset");
}
inline bool synchronise() { return succeeded(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

struct Graph {
  cudaGraphExec_t executable;
};

// Thread-local mode: what other OS threads do is theirs; what may not be captured fails on this one.
inline bool begin_capture() {
  if (capture_stream() != nullptr) {
    error_text() = "begin_capture: this thread is capturing already";
    return false;
  }
  cudaStream_t stream = nullptr;
  if (!succeeded(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"))
    return false;
  if (!succeeded(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture")) {
    cudaStreamDestroy(stream);
    return false;
  }
  capture_stream() = stream;
  return true;
}

inline Graph* end_capture() {
  const cudaStream_t stream = std::exchange(capture_stream(), nullptr);
  if (stream == nullptr) {
    error_text() = "end_capture: this thread is not capturing";
    return nullptr;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  bool made = succeeded(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture") &&
              succeeded(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  // The text of the first failure is the one that is kept.
  const std::string first = made ? std::string{} : error_text();
  if (graph != nullptr) made = succeeded(cudaGraphDestroy(graph), "cudaGraphDestroy") && made;
  made = succeeded(cudaStreamDestroy(stream), "cudaStreamDestroy") && made;
  if (!first.empty()) error_text() = first;
  if (made) return new Graph{executable};
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  return nullptr;
}

// In the default stream, behind what was put there before.
inline bool replay(Graph* graph) {
  return succeeded(cudaGraphLaunch(graph->executable, nullptr), "cudaGraphLaunch");
}
inline bool release_graph(Graph* graph) {
  if (graph == nullptr) return true;
  const bool destroyed = succeeded(cudaGraphExecDestroy(graph->executable), "cudaGraphExecDestroy");
  delete graph;
  return destroyed;
}

template <class... Parameters, class... Arguments>
bool launch(const Config& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  cudaLaunchConfig_t raw{};
  raw.gridDim = config.grid;
  raw.blockDim = config.block;
  raw.dynamicSmemBytes = config.dynamic_shared;
  raw.stream = capture_stream();
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
