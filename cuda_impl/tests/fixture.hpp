// Small pools and layers of 16-bit or f32 elements for tests of the table, in host memory (the simt
// device's).
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "contract/element.hpp"
#include "contract/verdict.hpp"
#include "cuda_impl/table.hpp"

namespace sinktrap::cuda_impl {

// A tensor with its shape; values are exact in the element type unless a test says otherwise.
struct HostTensor {
  Element type = Element::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> storage;  // 8-byte words: aligned for every element

  HostTensor() = default;
  HostTensor(Element t, std::vector<std::int64_t> s, std::vector<double> values = {})
      : type(t), shape(std::move(s)) {
    storage.resize(static_cast<std::size_t>((size() * element_bytes(type) + 7) / 8));
    put(values);
  }
  // Overwrites in place: a layer keeps the address of its weights.
  void put(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<std::int64_t>(i), values[i]);
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t e : shape) n *= e;
    return n;
  }
  double at(std::int64_t i) const { return load_element(type, storage.data(), i); }
  void set(std::int64_t i, double v) { store_element(type, storage.data(), i, v); }
  std::vector<double> values() const {
    std::vector<double> v;
    for (std::int64_t i = 0; i < size(); ++i) v.push_back(at(i));
    return v;
  }
  // 1, 2, 3, ... from `first`.
  HostTensor& count_from(double first) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, first + static_cast<double>(i));
    return *this;
  }
  HostTensor& fill(double v) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, v);
    return *this;
  }
  DLTensor view() {
    DLTensor t{};
    t.data = storage.data();
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<std::int32_t>(shape.size());
    t.dtype = dl_type(type);
    t.shape = shape.data();
    return t;
  }
};

// An instance of a simt implementation with a layer and, when bound, a pool.
class Layer {
 public:
  Layer(Element type, std::int64_t n, std::int64_t H, std::int64_t F, const char* options = "",
        std::int32_t layout = SINKTRAP_W13_INTERLEAVED, Kernel kernel = Kernel::ordered)
      : table(*simt_table(kernel)),
        type(type),
        n(n),
        H(H),
        F(F),
        w13(type, {n, 2 * F, H}),
        w2(type, {n, H, F}) {
    w13_view = w13.view();
    w2_view = w2.view();
    sinktrap_layer layer{sizeof(sinktrap_layer), layout, n, H, F, dl_type(type), &w13_view, &w2_view};
    EXPECT_EQ(table.create(&layer, options, &instance, &verdict), SINKTRAP_OK) << table.last_error();
  }
  ~Layer() { table.destroy(instance); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void make_pool(std::int64_t S, std::int64_t outer, std::int64_t R) {
    pool = {HostTensor(type, {S, outer, 2 * R, H}), HostTensor(type, {S, n, 2 * F, R}),
            HostTensor(type, {S, n, R, F}), HostTensor(type, {S, outer, H, R})};
  }
  Verdict bind() {
    std::array<DLTensor, SINKTRAP_BUFFER_COUNT> views{pool[0].view(), pool[1].view(), pool[2].view(),
                                                      pool[3].view()};
    table.bind(instance, views.data(), &verdict);
    return verdict;
  }
  Verdict update(std::vector<std::int64_t> ids) {
    const sinktrap_slot_set set{ids.data(), static_cast<std::int64_t>(ids.size())};
    table.update(instance, &set, &verdict);
    return verdict;
  }
  Verdict forward(HostTensor& x, HostTensor& gammas, std::vector<std::int32_t> slots, HostTensor& out) {
    HostTensor ids(Element::i32, {static_cast<std::int64_t>(slots.size())});
    for (std::size_t i = 0; i < slots.size(); ++i) ids.set(static_cast<std::int64_t>(i), slots[i]);
    DLTensor xv = x.view(), gv = gammas.view(), iv = ids.view(), ov = out.view();
    const sinktrap_forward_args args{sizeof(sinktrap_forward_args), 0, &xv, &gv, &iv, &ov};
    table.forward(instance, &args, &verdict);
    return verdict;
  }
  // An operand as values; empty with the verdict set when it is not there.
  std::vector<double> operand(const char* name, std::vector<std::int64_t> shape) {
    DLTensor view{};
    if (table.derived(instance, name, &view, &verdict) != SINKTRAP_OK) return {};
    EXPECT_EQ(std::vector<std::int64_t>(view.shape, view.shape + view.ndim), shape);
    EXPECT_EQ(view.dtype.bits, dl_type(type).bits);
    operand_address = view.data;
    std::vector<double> values;
    std::int64_t count = 1;
    for (std::int64_t e : shape) count *= e;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(load_element(type, view.data, i));
    return values;
  }

  const sinktrap_implementation_table& table;
  Element type;
  std::int64_t n, H, F;
  HostTensor w13, w2;
  std::array<HostTensor, SINKTRAP_BUFFER_COUNT> pool;
  sinktrap_instance* instance = nullptr;
  Verdict verdict{};
  void* operand_address = nullptr;

 private:
  DLTensor w13_view{}, w2_view{};
};

using Values = std::vector<double>;

}  // namespace sinktrap::cuda_impl
