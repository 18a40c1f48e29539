// Opens a plain_c library and gives it small tensors of f32 to work on.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "cases/tensor.hpp"
#include "contract/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap::test {

// The table of libsinktrap_plain_c<suffix>.so. The library stays loaded until the program ends.
inline const sinktrap_implementation_table* open_table(const std::string& suffix = "") {
  const std::string path = SINKTRAP_PLAIN_C_DIR "/libsinktrap_plain_c" + suffix + ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto function =
      reinterpret_cast<sinktrap_implementation_function>(dlsym(library, "sinktrap_implementation"));
  EXPECT_NE(function, nullptr) << path;
  return function == nullptr ? nullptr : function(SINKTRAP_ABI_VERSION);
}

inline Tensor tensor(std::vector<std::int64_t> shape, const std::vector<double>& values,
                     Element type = Element::f32) {
  Tensor t(type, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}

inline Tensor ids(const std::vector<std::int32_t>& slots) {
  Tensor t(Element::i32, {static_cast<std::int64_t>(slots.size())});
  for (std::size_t i = 0; i < slots.size(); ++i) t.set(static_cast<std::int64_t>(i), slots[i]);
  return t;
}

// A shared-outer layer of n = 2 experts with H = 1, F = 1 and a pool of S = 2 slots, R = 2: small enough for
// a pencil. With x = [1]: gate of expert e is gate_weight, up of expert 0 is 3, of expert 1 is 5; w2 is 1
// and 10.
class Layer {
 public:
  static constexpr double gate_weight = 64;  // silu(64) = 64 exactly: exp(-64) vanishes against 1 in f32
  Tensor w13 = tensor({2, 2, 1}, {gate_weight, 3, gate_weight, 5});  // interleaved
  Tensor w2 = tensor({2, 1, 1}, {1, 10});
  std::array<Tensor, SINKTRAP_BUFFER_COUNT> pool = {tensor({2, 1, 4, 1}, {}), tensor({2, 2, 2, 2}, {}),
                                                    tensor({2, 2, 2, 1}, {}), tensor({2, 1, 1, 2}, {})};

  explicit Layer(const sinktrap_implementation_table* table) : table_(table) {
    const DLTensor w13_view = w13.view(), w2_view = w2.view();
    sinktrap_layer layer{sizeof(sinktrap_layer),
                         SINKTRAP_W13_INTERLEAVED,
                         2,
                         1,
                         1,
                         dl_type(Element::f32),
                         &w13_view,
                         &w2_view};
    Verdict v{};
    EXPECT_EQ(table_->create(&layer, "", &instance, &v), SINKTRAP_OK) << verdict_to_text(v);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() { table_->destroy(instance); }

  Verdict bind() {
    DLTensor views[SINKTRAP_BUFFER_COUNT];
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) views[b] = pool[static_cast<std::size_t>(b)].view();
    Verdict v{};
    EXPECT_EQ(table_->bind(instance, views, &v), v.code);
    return v;
  }
  Verdict update(const std::vector<std::int64_t>& slots) {
    const sinktrap_slot_set set{slots.data(), static_cast<std::int64_t>(slots.size())};
    Verdict v{};
    EXPECT_EQ(table_->update(instance, &set, &v), v.code);
    return v;
  }
  // One token of x = 1 for each slot, with gammas 1 and 2. `out` keeps what was in it where forward does not
  // write; its last element lies behind the tensor that forward sees.
  Verdict forward(const std::vector<std::int32_t>& slots) {
    const auto T = static_cast<std::int64_t>(slots.size());
    x = tensor({T, 1}, std::vector<double>(slots.size(), 1.0));
    gammas = tensor({T, 2}, {});
    for (std::int64_t i = 0; i < 2 * T; ++i) gammas.set(i, 1.0 + static_cast<double>(i % 2));
    token_slot = ids(slots);
    out = tensor({T + 1, 1}, std::vector<double>(slots.size() + 1, -7.0));
    const DLTensor x_view = x.view(), gammas_view = gammas.view(), slot_view = token_slot.view();
    DLTensor out_view = out.view();
    std::int64_t out_shape[2] = {T, 1};
    out_view.shape = out_shape;
    const sinktrap_forward_args args{sizeof args, 0, &x_view, &gammas_view, &slot_view, &out_view};
    Verdict v{};
    EXPECT_EQ(table_->forward(instance, &args, &v), v.code);
    return v;
  }
  // An adapter of rank 1 in slot s: g_br = gate_a, u_br = up_a, and so on, each factor a single number. up
  // rows of A start at row R = 2.
  void put_adapter(std::int64_t s, double gate_a, double up_a, double gate_b, double up_b, double down_a,
                   double down_b) {
    pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].set(s * 4, gate_a);
    pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].set(s * 4 + 2, up_a);
    for (std::int64_t e = 0; e < 2; ++e) {
      pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].set((s * 2 + e) * 4, gate_b * static_cast<double>(e + 1));
      pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].set((s * 2 + e) * 4 + 2, up_b * static_cast<double>(e + 1));
      pool[SINKTRAP_BUFFER_DOWN_LORA_A].set((s * 2 + e) * 2, down_a);
    }
    pool[SINKTRAP_BUFFER_DOWN_LORA_B].set(s * 2, down_b);
  }

  sinktrap_instance* instance = nullptr;
  Tensor x, gammas, token_slot, out;

 private:
  const sinktrap_implementation_table* table_;
};

// Base output of a token: act = 64*3*1 and 64*5*2, out = 1*192 + 10*640.
constexpr double kBase = 6592;
// put_adapter(s, 2, 4, 1, 1, 1, 0.5): gate 64+2 and 64+4, up 3+4 and 5+8, act 66*7*1 = 462 and 68*13*2 =
// 1768, base 462 + 17680, d_br 462 + 1768, delta half of it.
constexpr double kAdapted = 18142 + 1115;

}  // namespace sinktrap::test
