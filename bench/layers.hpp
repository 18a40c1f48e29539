// Layers and batches of random bf16 values in an implementation's memory, for the benchmarks. A call that
// fails ends the program with its reason.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "contract/codes.h"
#include "cuda_impl/table.hpp"

namespace sinktrap::bench {

using Table = sinktrap_implementation_table;

[[noreturn]] inline void fail(const Table& table, const char* what) {
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
inline constexpr std::int64_t kExperts = 2, kSlots = 4, kRank = 32;

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

}  // namespace sinktrap::bench
