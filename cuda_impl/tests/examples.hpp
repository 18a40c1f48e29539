// Layers and batches that the tests of several forward kernels share.
#pragma once
#include <cmath>

#include "cuda_impl/tests/fixture.hpp"

namespace sinktrap::cuda_impl {

// n 2, H 2, F 1, R 1, x = (1, 40). Gates stay above 40, so silu is the identity.
//   expert 0: base gate 43, up 2; expert 1: base gate 80, up 1. gammas 0.5 and 2.
//   base only: act = 43, 160; out = (43 - 160, 86 + 480).
struct Example {
  explicit Example(bool per_expert, const char* options = "", std::int32_t w13 = SINKTRAP_W13_INTERLEAVED,
                   Element type = Element::f32, Kernel kernel = Kernel::ordered)
      : layer(type, 2, 2, 1, options, w13, kernel),
        x(type, {1, 2}, {1, 40}),
        gammas(type, {1, 2}, {0.5, 2}),
        out(type, {1, 2}) {
    // With F = 1 both w13 layouts are (gate, up).
    layer.w13.put({3, 1, 2, 0, 0, 2, 1, 0});
    layer.w2.put({1, 2, -1, 3});
    layer.make_pool(1, per_expert ? 2 : 1, 1);
    // gate A, up A of expert 0 (or shared), then of expert 1.
    layer.pool[0] = per_expert ? HostTensor(type, {1, 2, 2, 2}, {1, 0, 0, 1, 2, 0, 0, 1})
                               : HostTensor(type, {1, 1, 2, 2}, {1, 0, 0, 1});
    layer.pool[1] = HostTensor(type, {1, 2, 2, 1}, {2, 0.5, -1, 0.25});
    layer.pool[2] = HostTensor(type, {1, 2, 1, 1}, {2, 1});
    layer.pool[3] = per_expert ? HostTensor(type, {1, 2, 2, 1}, {0.5, -1, 1, 2})
                               : HostTensor(type, {1, 1, 2, 1}, {0.5, -1});
  }
  Values run(std::int32_t slot) {
    EXPECT_EQ(layer.forward(x, gammas, {slot}, out).code, SINKTRAP_OK) << layer.table.last_error();
    return out.values();
  }
  Layer layer;
  HostTensor x, gammas, out;
};

// A batch with several groups of tokens, mixed slots and values of all sizes.
struct Batch {
  static constexpr std::int64_t kT = 21;
  Batch(Element type, bool per_expert, const char* options = "", Kernel kernel = Kernel::ordered)
      : layer(type, 3, 7, 5, options, SINKTRAP_W13_INTERLEAVED, kernel),
        x(type, {kT, 7}),
        gammas(type, {kT, 3}),
        out(type, {kT, 7}) {
    layer.make_pool(4, per_expert ? 3 : 1, 2);
    for (HostTensor* t :
         {&x, &gammas, &layer.w13, &layer.w2, &layer.pool[0], &layer.pool[1], &layer.pool[2], &layer.pool[3]})
      for (std::int64_t i = 0; i < t->size(); ++i) t->set(i, next());
    for (std::int32_t t = 0; t < kT; ++t) slots.push_back(t * 7 % 5 - 1);
    EXPECT_EQ(layer.bind().code, SINKTRAP_OK);
  }
  double next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;  // Knuth's MMIX generator
    return std::ldexp(static_cast<double>(static_cast<std::int64_t>(state) >> 32), -31);
  }
  Values run() {
    out.fill(77);
    EXPECT_EQ(layer.forward(x, gammas, slots, out).code, SINKTRAP_OK) << layer.table.last_error();
    return out.values();
  }
  // Token t in a batch of its own.
  Values alone(std::int64_t t) {
    HostTensor one_x(x.type, {1, 7}), one_gammas(x.type, {1, 3}), one_out(x.type, {1, 7});
    for (std::int64_t i = 0; i < 7; ++i) one_x.set(i, x.at(t * 7 + i));
    for (std::int64_t i = 0; i < 3; ++i) one_gammas.set(i, gammas.at(t * 3 + i));
    EXPECT_EQ(layer.forward(one_x, one_gammas, {slots[static_cast<std::size_t>(t)]}, one_out).code,
              SINKTRAP_OK)
        << layer.table.last_error();
    return one_out.values();
  }
  // Puts the value into x of token 9 and everywhere into slot 2: into the outputs of these tokens.
  void poison(double value) {
    for (std::int64_t i = 0; i < 7; ++i) x.set(9 * 7 + i, value);
    for (HostTensor& t : layer.pool)
      for (std::int64_t i = t.size() / 4 * 2; i < t.size() / 4 * 3; ++i) t.set(i, value);
    EXPECT_EQ(layer.update({2}).code, SINKTRAP_OK);
  }
  bool is_poisoned(std::int64_t t) const { return t == 9 || slots[static_cast<std::size_t>(t)] == 2; }

  std::uint64_t state = 1;
  Layer layer;
  HostTensor x, gammas, out;
  std::vector<std::int32_t> slots;
};

// x 64; features: gate 64.5, up 64.5 -> 4160.25; gate 64, up 65 -> 4160. w2 = (1, -1): the quarter survives
// only if act (or the product) stays in f32.
struct Cancelling {
  explicit Cancelling(const char* options = "", Kernel kernel = Kernel::ordered)
      : layer(Element::bf16, 1, 1, 2, options, SINKTRAP_W13_INTERLEAVED, kernel) {
    layer.w13.put({1.0078125, 1.0078125, 1, 1.015625});
    layer.w2.put({1, -1});
  }
  double run() {
    HostTensor x(Element::bf16, {1, 1}, {64}), gammas(Element::bf16, {1, 1}, {1}), out(Element::bf16, {1, 1});
    EXPECT_EQ(layer.forward(x, gammas, {-1}, out).code, SINKTRAP_OK) << layer.table.last_error();
    return out.at(0);
  }
  Layer layer;
};

inline Values row_of(const Values& all, std::int64_t t) {
  return {all.begin() + t * 7, all.begin() + (t + 1) * 7};
}

}  // namespace sinktrap::cuda_impl
