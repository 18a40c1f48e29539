#include "bench/device_floors.hpp"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

namespace sinktrap {
namespace {

bool succeeded(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return true;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(result));
  return false;
}
bool succeeded(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return true;
  std::fprintf(stderr, "%s: %s\n", call, cublasGetStatusString(result));
  return false;
}

// Device memory of a floor, zeroed: a product of zeros takes as long as any other, but for power.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) {
    if (succeeded(cudaMalloc(&at, bytes), "cudaMalloc") &&
        !succeeded(cudaMemset(at, 0, bytes), "cudaMemset")) {
      cudaFree(at);
      at = nullptr;
    }
  }
  ~Memory() { cudaFree(at); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* at = nullptr;
};

// The best time of `count` runs of `work` between two events, after one that is not counted.
template <class Work>
double best_seconds(int count, Work work) {
  cudaEvent_t start{}, stop{};
  if (!succeeded(cudaEventCreate(&start), "cudaEventCreate") ||
      !succeeded(cudaEventCreate(&stop), "cudaEventCreate"))
    return 0;
  double best = 0;
  for (int i = 0; i <= count; ++i) {
    float milliseconds = 0;
    if (!succeeded(cudaEventRecord(start), "cudaEventRecord") || !work() ||
        !succeeded(cudaEventRecord(stop), "cudaEventRecord") ||
        !succeeded(cudaEventSynchronize(stop), "cudaEventSynchronize") ||
        !succeeded(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime")) {
      best = 0;
      break;
    }
    if (i == 1 || (i > 1 && milliseconds * 1e-3 < best)) best = milliseconds * 1e-3;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return best;
}

}  // namespace

double copy_bandwidth() {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;
  const Memory from(kBytes), to(kBytes);
  if (from.at == nullptr || to.at == nullptr) return 0;
  const double seconds = best_seconds(10, [&] {
    return succeeded(cudaMemcpyAsync(to.at, from.at, kBytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
  });
  return seconds > 0 ? 2 * static_cast<double>(kBytes) / seconds : 0;
}

double base_gemm_seconds(std::int64_t T, std::int64_t H, std::int64_t F, std::int64_t n) {
  const auto bytes = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns) * 2;
  };
  const Memory x(bytes(T, H)), w13(bytes(n * 2 * F, H)), y(bytes(T, n * 2 * F)), act(bytes(T, n * F)),
      w2(bytes(H, n * F)), out(bytes(T, H));
  for (const Memory* m : {&x, &w13, &y, &act, &w2, &out})
    if (m->at == nullptr) return 0;
  cublasHandle_t handle{};
  if (!succeeded(cublasCreate(&handle), "cublasCreate")) return 0;
  // cuBLAS is column-major: a row-major [T, K] is its [K, T], so weights [rows, K] come first, transposed.
  const auto multiply = [&](const Memory& w, const Memory& v, const Memory& to, std::int64_t rows,
                            std::int64_t K) {
    const float one = 1, zero = 0;
    const int m = static_cast<int>(rows), k = static_cast<int>(K), t = static_cast<int>(T);
    return succeeded(
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, t, k, &one, w.at, CUDA_R_16BF, k, v.at, CUDA_R_16BF,
                     k, &zero, to.at, CUDA_R_16BF, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  };
  const double seconds =
      best_seconds(10, [&] { return multiply(w13, x, y, n * 2 * F, H) && multiply(w2, act, out, H, n * F); });
  cublasDestroy(handle);
  return seconds;
}

}  // namespace sinktrap
