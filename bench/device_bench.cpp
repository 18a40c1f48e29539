// Forward passes at the sizes of real layers on a device, and the bitwise repeat.
//
//   sinktrap_device_bench table [SECONDS]           a Markdown table for the CUDA kernels; about SECONDS
//   (120) sinktrap_device_bench repeat IMPL COUNT [TINY]  the same forward COUNT times: exit code 1 if a bit
//   differs.
//                                                   IMPL is simt:KERNEL or cuda:KERNEL; TINY: a layer of H =
//                                                   72
//
// A time is the best of several calls of `forward`, by the host's clock, with all that the call does: it
// reads the slot ids back and waits for the device at its end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/layers.hpp"
#if defined(SINKTRAP_HAS_GPU_BUILD)
#include "bench/device_floors.hpp"
#endif

namespace {

using namespace sinktrap;
using namespace sinktrap::bench;
using Clock = std::chrono::steady_clock;
using cuda_impl::Kernel;

const Table* find(const std::string& name) {
  for (Kernel kernel : {Kernel::ordered, Kernel::tiled, Kernel::mma, Kernel::decode})
    for (const Table* table : {cuda_impl::simt_table(kernel), cuda_impl::cuda_table(kernel)})
      if (table != nullptr && name == table->name) return table;
  return nullptr;
}

int repeat(const std::string& name, int count, bool tiny) {
  const Table* table = find(name);
  if (table == nullptr) {
    std::fprintf(stderr, "%s: no such kernel in this build\n", name.c_str());
    return 2;
  }
  const Sizes sizes = tiny ? Sizes{72, 40} : Sizes{6144, 384};
  Layer layer(*table, sizes);
  int runs = 0, different = 0;
  for (std::int64_t T : {1, 9, 32, 70}) {
    Batch batch(*table, sizes, T, true);
    batch.forward(layer);
    const auto first = batch.out();
    for (int i = 1; i < count; ++i) {
      batch.forward(layer);
      different += batch.out() != first;
    }
    runs += count;
  }
  std::printf("%s: %d forward passes of 4 batches, %d differ from the first of their batch\n", name.c_str(),
              runs, different);
  return different > 0;
}

#if defined(SINKTRAP_HAS_GPU_BUILD)
double best_seconds(Batch& batch, const Layer& layer, double limit) {
  batch.forward(layer);
  double best = 0, spent = 0;
  for (int i = 0; i < 2 || (i < 200 && spent < limit); ++i) {
    const auto start = Clock::now();
    batch.forward(layer);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    spent += seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  return best;
}

int print_table(double seconds) {
  const char* why = nullptr;
  if (!cuda_impl::cuda_device_present(&why)) {
    std::fprintf(stderr, "no device: %s\n", why);
    return 2;
  }
  const double bandwidth = copy_bandwidth();
  std::printf("Device-to-device copy: %.0f GB/s (read and written).\n\n", bandwidth * 1e-9);
  std::printf(
      "| model | TP | T | adapters | kernel | us | weights at copy bandwidth, us | ratio | cuBLAS base, us | "
      "ratio |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  const struct {
    const char* name;
    Sizes sizes;
  } models[] = {{"Inkling", {6144, 3072}}, {"Inkling-Small", {4096, 2048}}};
  constexpr int kRows = 2 * 2 * 2 * 6 * 2;
  for (const auto& model : models)
    for (std::int64_t tp : {1, 8}) {
      const Sizes s = {model.sizes.H, model.sizes.F / tp};
      // Every weight read once, at the bytes a second of a copy.
      const double floor = static_cast<double>(kExperts * 3 * s.F * s.H * 2) / bandwidth;
      for (std::int64_t T : {1, 9, 32, 144, 4096, 16384}) {
        const double gemm = base_gemm_seconds(T, s.H, s.F, kExperts);
        for (Kernel kernel : {T <= 32 ? Kernel::decode : Kernel::tiled, Kernel::mma}) {
          const Table& table = *cuda_impl::cuda_table(kernel);
          Layer layer(table, s);
          for (bool adapters : {false, true}) {
            Batch batch(table, s, T, adapters);
            const double best = best_seconds(batch, layer, seconds / kRows / 2);
            std::printf("| %s | %d | %d | %s | %s | %.1f | %.1f | %.2f | %.1f | %.2f |\n", model.name,
                        static_cast<int>(tp), static_cast<int>(T), adapters ? "4" : "none", table.name,
                        best * 1e6, floor * 1e6, best / floor, gemm * 1e6, best / gemm);
            std::fflush(stdout);
          }
        }
      }
    }
  return 0;
}
#else
int print_table(double) {
  std::fprintf(stderr, "table: built without nvcc\n");
  return 2;
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "table" && words.size() <= 2) {
    const double seconds = words.size() == 2 ? std::atof(words[1].c_str()) : 120;
    if (seconds > 0) return print_table(seconds);
  }
  if (words.size() >= 3 && words.size() <= 4 && words[0] == "repeat" && std::atoi(words[2].c_str()) > 0 &&
      (words.size() == 3 || words[3] == "TINY"))
    return repeat(words[1], std::atoi(words[2].c_str()), words.size() == 4);
  std::fprintf(stderr, "usage: sinktrap_device_bench table [SECONDS] | repeat IMPL COUNT [TINY]\n");
  return 2;
}
