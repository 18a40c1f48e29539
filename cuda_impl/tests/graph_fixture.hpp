// A layer, a pool and a batch in the memory of the target that this is compiled for, and the comparison of a
// step that is replayed with the same calls made directly.
#pragma once
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "contract/element.hpp"
#include "cuda_impl/host/graph.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

using Bytes = std::vector<unsigned char>;

class DeviceTensor {
 public:
  DeviceTensor(Element type, std::vector<std::int64_t> shape) : shape_(std::move(shape)), type_(type) {
    std::int64_t count = 1;
    for (std::int64_t e : shape_) count *= e;
    host_.resize(static_cast<std::size_t>(count * sinktrap::element_bytes(type)));
    memory_.reserve(host_.size());
    upload();
  }
  std::int64_t size() const {
    return static_cast<std::int64_t>(host_.size()) / sinktrap::element_bytes(type_);
  }
  // Elements [first, last) from a generator; then the tensor is on the device.
  template <class Next>
  void draw(std::int64_t first, std::int64_t last, Next next) {
    for (std::int64_t i = first; i < last; ++i) store_element(type_, host_.data(), i, next());
    upload();
  }
  void put(const std::vector<std::int32_t>& ids) {
    std::memcpy(host_.data(), ids.data(), host_.size());
    upload();
  }
  Bytes read() const {
    Bytes bytes(host_.size());
    require_device(device_read(bytes.data(), memory_.get(), bytes.size()));
    return bytes;
  }
  DLTensor view() {
    return {memory_.get(), kDevice, static_cast<std::int32_t>(shape_.size()), dl_type(type_), shape_.data(),
            nullptr,       0};
  }
  std::vector<std::int64_t>& shape() { return shape_; }

 private:
  void upload() { require_device(device_write(memory_.get(), host_.data(), host_.size())); }

  std::vector<std::int64_t> shape_;
  Element type_;
  Bytes host_;
  DeviceBuffer memory_;
};

// Four slots; extents pairwise different.
struct Scene {
  static constexpr std::int64_t kS = 4, kN = 2, kH = 24, kF = 9, kR = 3;

  Scene(Kernel kernel_, bool per_expert, std::int64_t T_)
      : kernel(kernel_),
        T(T_),
        outer(per_expert ? kN : 1),
        w13(Element::bf16, {kN, 2 * kF, kH}),
        w2(Element::bf16, {kN, kH, kF}),
        pool{DeviceTensor(Element::bf16, {kS, outer, 2 * kR, kH}),
             DeviceTensor(Element::bf16, {kS, kN, 2 * kF, kR}), DeviceTensor(Element::bf16, {kS, kN, kR, kF}),
             DeviceTensor(Element::bf16, {kS, outer, kH, kR})},
        x(Element::bf16, {T, kH}),
        gammas(Element::bf16, {T, kN}),
        ids(Element::i32, {T}),
        out(Element::bf16, {T, kH}),
        instance(make()) {
    for (DeviceTensor* t : {&w13, &w2, &x, &gammas, &pool[0], &pool[1], &pool[2], &pool[3]})
      t->draw(0, t->size(), [this] { return next(); });
  }

  double next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;  // Knuth's MMIX generator
    return std::ldexp(static_cast<double>(static_cast<std::int64_t>(state) >> 32), -31);
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((next() + 1) / 2 * static_cast<double>(n));
  }

  std::array<DLTensor, SINKTRAP_BUFFER_COUNT> buffers() {
    return {pool[0].view(), pool[1].view(), pool[2].view(), pool[3].view()};
  }
  Verdict bind() { return instance->bind(buffers().data()); }
  // Another adapter in a slot of the pool.
  void rewrite(std::int64_t slot) {
    for (DeviceTensor& t : pool)
      t.draw(slot * t.size() / kS, (slot + 1) * t.size() / kS, [this] { return next(); });
  }
  // One of the arguments may be replaced.
  template <class Call>
  Verdict with_arguments(Call call) {
    DLTensor xv = x.view(), gv = gammas.view(), iv = ids.view(), ov = out.view();
    const sinktrap_forward_args args{sizeof(sinktrap_forward_args), 0, &xv, &gv, &iv, &ov};
    return call(args);
  }
  Verdict forward() {
    return with_arguments([this](const sinktrap_forward_args& a) { return instance->forward(&a); });
  }
  Verdict capture(std::unique_ptr<StepGraph>& graph) {
    return with_arguments([&](const sinktrap_forward_args& a) { return instance->capture(&a, &graph); });
  }

  Kernel kernel;
  std::int64_t T, outer;
  std::uint64_t state = 1;
  DeviceTensor w13, w2;
  std::array<DeviceTensor, SINKTRAP_BUFFER_COUNT> pool;
  DeviceTensor x, gammas, ids, out;
  std::unique_ptr<Instance> instance;  // that which is captured

  // Another instance on the same tensors.
  std::unique_ptr<Instance> make() {
    DLTensor a = w13.view(), b = w2.view();
    const sinktrap_layer layer{sizeof(sinktrap_layer), SINKTRAP_W13_INTERLEAVED, kN, kH, kF, a.dtype, &a, &b};
    return std::make_unique<Instance>(kernel, layer, parse_options(kernel, ""));
  }
};

// Something that claims to be the step: validation, update of these slots and forward, replayed.
class Replayed {
 public:
  virtual ~Replayed() = default;
  virtual void capture(Scene& scene) = 0;
  virtual void replay(const std::vector<std::int64_t>& rewritten) = 0;
};

// Captured with one adapter in use, then replayed after changes of the map from tokens to slots, of the
// number of adapters in use (none and all of them included) and of the adapters themselves. The first
// difference from direct calls, as text; empty: none.
std::string first_difference(Kernel kernel, bool per_expert, Replayed& replayed);

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
