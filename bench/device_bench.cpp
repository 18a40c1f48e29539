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
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "contract/codes.h"
#include "cuda_impl/table.hpp"
#if defined(SINKTRAP_HAS_GPU_BUILD)
#include "bench/device_floors.hpp"
#endif

namespace {

using namespace sinktrap;
using Clock = std::chrono::steady_clock;
using Table = sinktrap_implementation_table;
using cuda_impl::Kernel;

[[noreturn]] void fail(const Table& table, const char* what) {
  std::fprintf(stderr, "%s: %s failed: %s\n", table.name, what, table.last_error());
  std::exit(1);
}

// A bf16 tensor in the table's memory, filled with a repeated block of random values of about `scale`.
class Tensor {
 public:
  Tensor(const Table& table, std::vector<std::int64_t> shape, double scale)
      : table_(table), shape_(std::move(shape)) {
    std::mt19937 random(7);
    std::vector<std::uint16_t> block(kBlock);
    for (auto& element : block) {
      const auto value = static_cast<float>((random() % 2001 / 1000.0 - 1) * scale);
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      element = static_cast<std::uint16_t>(bits >> 16);
    }
    allocate(2);
    for (std::int64_t first = 0; first < count_; first += kBlock)
      put(first * 2, block.data(), std::min(kBlock, count_ - first) * 2);
  }
  Tensor(const Table& table, const std::vector<std::int32_t>& ids)
      : table_(table), shape_{static_cast<std::int64_t>(ids.size())} {
    allocate(4);
    put(0, ids.data(), count_ * 4);
    view.dtype = {kDLInt, 32, 1};
  }
  ~Tensor() { table_.memory.release(view.data); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> host(static_cast<std::size_t>(count_ * 2));
    if (table_.memory.read(host.data(), view.data, host.size()) != SINKTRAP_OK) fail(table_, "read");
    return host;
  }
  DLTensor view{};

 private:
  static constexpr std::int64_t kBlock = std::int64_t{1} << 20;
  void allocate(std::int64_t size) {
    for (std::int64_t e : shape_) count_ *= e;
    view.data = table_.memory.allocate(static_cast<std::uint64_t>(count_ * size));
    if (view.data == nullptr) fail(table_, "allocate");
    view.device = table_.device;
    view.ndim = static_cast<std::int32_t>(shape_.size());
    view.dtype = {kDLBfloat, 16, 1};
    view.shape = shape_.data();
  }
  void put(std::int64_t at, const void* from, std::int64_t size) {
    if (table_.memory.write(static_cast<char*>(view.data) + at, from, static_cast<std::uint64_t>(size)) !=
        SINKTRAP_OK)
      fail(table_, "write");
  }
  const Table& table_;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 1;
};

struct Sizes {
  std::int64_t H, F;
};
constexpr std::int64_t kExperts = 2, kSlots = 4, kRank = 32;

// A layer with a pool of kSlots shared-outer adapters.
class Layer {
 public:
  Layer(const Table& table, Sizes s)
      : table_(table),
        w13_(table, {kExperts, 2 * s.F, s.H}, 0.02),
        w2_(table, {kExperts, s.H, s.F}, 0.02),
        pool_{{table, {kSlots, 1, 2 * kRank, s.H}, 0.02},
              {table, {kSlots, kExperts, 2 * s.F, kRank}, 0.02},
              {table, {kSlots, kExperts, kRank, s.F}, 0.02},
              {table, {kSlots, 1, s.H, kRank}, 0.02}} {
    const sinktrap_layer layer{sizeof(sinktrap_layer),
                               SINKTRAP_W13_INTERLEAVED,
                               kExperts,
                               s.H,
                               s.F,
                               {kDLBfloat, 16, 1},
                               &w13_.view,
                               &w2_.view};
    sinktrap_verdict v{};
    if (table.create(&layer, "", &instance_, &v) != SINKTRAP_OK) fail(table, "create");
    const DLTensor buffers[] = {pool_[0].view, pool_[1].view, pool_[2].view, pool_[3].view};
    if (table.bind(instance_, buffers, &v) != SINKTRAP_OK) fail(table, "bind");
  }
  ~Layer() { table_.destroy(instance_); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  sinktrap_instance* instance() const { return instance_; }

 private:
  const Table& table_;
  Tensor w13_, w2_, pool_[SINKTRAP_BUFFER_COUNT];
  sinktrap_instance* instance_ = nullptr;
};

// A batch of T tokens: with adapters token t has slot t % kSlots, without all are on the base model.
class Batch {
 public:
  Batch(const Table& table, Sizes s, std::int64_t T, bool adapters)
      : table_(table),
        x_(table, {T, s.H}, 1),
        gammas_(table, {T, kExperts}, 1),
        ids_(table, slots(T, adapters)),
        out_(table, {T, s.H}, 0) {}
  void forward(const Layer& layer) {
    const sinktrap_forward_args args{
        sizeof(sinktrap_forward_args), 0, &x_.view, &gammas_.view, &ids_.view, &out_.view};
    sinktrap_verdict v{};
    if (table_.forward(layer.instance(), &args, &v) != SINKTRAP_OK) fail(table_, "forward");
  }
  std::vector<unsigned char> out() const { return out_.bytes(); }

 private:
  static std::vector<std::int32_t> slots(std::int64_t T, bool adapters) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(T), -1);
    for (std::size_t t = 0; adapters && t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(t % kSlots);
    return ids;
  }
  const Table& table_;
  Tensor x_, gammas_, ids_, out_;
};

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
