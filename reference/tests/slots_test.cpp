// Slot operations on hand-computed examples (CONTRACT.md sections 3 and 4).
#include "reference/slots.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "cases/tensor.hpp"

namespace sinktrap::reference {
namespace {

Tensor counting(Element type, std::vector<std::int64_t> shape, double first = 1) {
  Tensor t(type, std::move(shape));
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, first + static_cast<double>(i));
  return t;
}

struct PoolTensors {
  std::array<Tensor, SINKTRAP_BUFFER_COUNT> tensors;
  PoolTensors(Element type, std::int64_t S, std::int64_t outer, std::int64_t n, std::int64_t R,
              std::int64_t H, std::int64_t F, double fill)
      : tensors{Tensor(type, {S, outer, 2 * R, H}), Tensor(type, {S, n, 2 * F, R}),
                Tensor(type, {S, n, R, F}), Tensor(type, {S, outer, H, R})} {
    for (Tensor& t : tensors)
      for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, fill);
  }
  std::array<DLTensor, SINKTRAP_BUFFER_COUNT> views() const {
    return {tensors[0].view(), tensors[1].view(), tensors[2].view(), tensors[3].view()};
  }
  Pool pool() const { return pool_of(views().data()); }
};

// Values of slot s of a tensor with S slots.
std::vector<double> slot_values(const Tensor& t, std::int64_t s) {
  const std::vector<double> all = t.values();
  const auto size = t.size() / t.extent(0);
  return {all.begin() + s * size, all.begin() + (s + 1) * size};
}

using Values = std::vector<double>;

TEST(Derive, W1DeltaInterleavesTheHalves) {
  PoolTensors p(Element::f32, 2, 1, 1, 2, 1, 2, 0);
  // Slot 1: gate rows (1,2), (3,4); up rows (5,6), (7,8).
  for (int i = 0; i < 8; ++i) p.tensors[1].set(8 + i, i + 1);
  Tensor w1(Element::f32, {2, 4, 4});
  for (std::int64_t i = 0; i < w1.size(); ++i) w1.set(i, 9);
  derive_w1_delta(p.pool(), 1, reinterpret_cast<char*>(w1.bytes().data()));
  EXPECT_EQ(slot_values(w1, 0), Values(16, 9));
  EXPECT_EQ(slot_values(w1, 1), (Values{1, 2, 0, 0, 0, 0, 5, 6, 3, 4, 0, 0, 0, 0, 7, 8}));
}

TEST(Derive, ConcatenatesOverExperts) {
  PoolTensors p(Element::bf16, 1, 2, 2, 2, 3, 1, 0);
  p.tensors[2] = counting(Element::bf16, {1, 2, 2, 1});  // e0 (1), (2); e1 (3), (4)
  p.tensors[3] = counting(Element::bf16, {1, 2, 3, 2});  // e0 (1,2), (3,4), (5,6); e1 (7,8), ...
  Tensor a(Element::bf16, {1, 2, 2}), b(Element::bf16, {1, 3, 4});
  derive_a_cat(p.pool(), 0, reinterpret_cast<char*>(a.bytes().data()));
  derive_b_cat(p.pool(), 0, reinterpret_cast<char*>(b.bytes().data()));
  EXPECT_EQ(a.values(), (Values{1, 3, 2, 4}));
  EXPECT_EQ(b.values(), (Values{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}));
}

// r = 1 into R = 2; n = 2, H = 2, F = 1 on rank 1 of 2 (F_all = 2).
struct LoadExample {
  Tensor gate_a = counting(Element::f32, {1, 2}, 1);   // 1 2
  Tensor up_a = counting(Element::f32, {1, 2}, 3);     // 3 4
  Tensor gate_up_b = counting(Element::f32, {8, 1});   // e0 gate 1 2, up 3 4; e1 gate 5 6, up 7 8
  Tensor down_a = counting(Element::f32, {1, 4}, 11);  // e0 11 12, e1 13 14
  Tensor down_b = counting(Element::f32, {2, 1}, 21);  // 21 22
  DLTensor views[5];
  sinktrap_adapter adapter{};

  LoadExample() { attach(); }
  void attach() {
    views[0] = gate_a.view(), views[1] = up_a.view(), views[2] = gate_up_b.view(), views[3] = down_a.view(),
    views[4] = down_b.view();
    adapter = {sizeof adapter, 0, 1, 0.5f, 0, 1, 2, &views[0], &views[1], &views[2], &views[3], &views[4]};
  }
};

TEST(Load, WritesTheSlotAtMaxRank) {
  PoolTensors p(Element::f32, 2, 1, 2, 2, 2, 1, 99);
  LoadExample example;
  const Tensor before = example.gate_up_b;
  ASSERT_EQ(load_slot(p.pool(), 1, &example.adapter), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(slot_values(p.tensors[0], 1), (Values{1, 2, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(slot_values(p.tensors[1], 1), (Values{1, 0, 2, 0, 3, 0, 4, 0}));  // features 1: 2 4 6 8, halved
  EXPECT_EQ(slot_values(p.tensors[2], 1), (Values{12, 0, 14, 0}));
  EXPECT_EQ(slot_values(p.tensors[3], 1), (Values{10.5, 0, 11, 0}));
  for (const Tensor& t : p.tensors)
    EXPECT_EQ(slot_values(t, 0), Values(static_cast<std::size_t>(t.size() / 2), 99));
  EXPECT_TRUE(example.gate_up_b.same_bits(before));

  example.adapter.up_a = nullptr;  // gate A serves both halves
  ASSERT_EQ(load_slot(p.pool(), 1, &example.adapter), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(slot_values(p.tensors[0], 1), (Values{1, 2, 0, 0, 1, 2, 0, 0}));

  sinktrap_adapter nothing{};
  nothing.struct_size = sizeof nothing, nothing.tp_size = 1;
  ASSERT_EQ(load_slot(p.pool(), 1, &nothing), verdict_of(SINKTRAP_OK));
  for (const Tensor& t : p.tensors)
    EXPECT_EQ(slot_values(t, 1), Values(static_cast<std::size_t>(t.size() / 2), 0));
}

TEST(Load, SharedAndPerExpertFactorsInAPerExpertPool) {
  PoolTensors p(Element::f32, 1, 2, 2, 2, 2, 1, 99);
  LoadExample example;
  ASSERT_EQ(load_slot(p.pool(), 0, &example.adapter), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(p.tensors[0].values(), (Values{1, 2, 0, 0, 3, 4, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(p.tensors[3].values(), (Values{10.5, 0, 11, 0, 10.5, 0, 11, 0}));

  example.gate_a = counting(Element::f32, {2, 2}, 1);
  example.up_a = counting(Element::f32, {2, 2}, 5);
  example.down_b = counting(Element::f32, {4, 1}, 21);
  example.attach();
  example.adapter.per_expert = 1;
  ASSERT_EQ(load_slot(p.pool(), 0, &example.adapter), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(p.tensors[0].values(), (Values{1, 2, 0, 0, 5, 6, 0, 0, 3, 4, 0, 0, 7, 8, 0, 0}));
  EXPECT_EQ(p.tensors[3].values(), (Values{10.5, 0, 11, 0, 11.5, 0, 12, 0}));
}

// scaling * B in f32, then one rounding: 1.0078125 * 1.0078125 = 1.01568..., bf16 neighbours 1.015625
// and 1.0234375.
TEST(Load, ScalesInF32) {
  PoolTensors p(Element::bf16, 1, 1, 1, 1, 1, 1, 0);
  Tensor one(Element::bf16, {1, 1}), pair(Element::bf16, {2, 1});
  one.set(0, 1.0078125), pair.set(0, 1.0078125), pair.set(1, -0.0);
  const DLTensor a = one.view(), b = pair.view();
  const sinktrap_adapter adapter{sizeof adapter, 1, 1, 1.0078125f, 0, 0, 1, &a, nullptr, &b, &a, &a};
  ASSERT_EQ(load_slot(p.pool(), 0, &adapter), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(p.tensors[1].values(), (Values{1.015625, 0}));
  EXPECT_TRUE(std::signbit(p.tensors[1].at(1)));
  EXPECT_EQ(p.tensors[0].values(), (Values{1.0078125, 1.0078125}));
}

TEST(Load, RefusesInTheOrderOfTheContract) {
  constexpr int A = SINKTRAP_BUFFER_GATE_UP_LORA_A, B = SINKTRAP_BUFFER_GATE_UP_LORA_B,
                DA = SINKTRAP_BUFFER_DOWN_LORA_A, DB = SINKTRAP_BUFFER_DOWN_LORA_B;
  const auto argument = [](int buffer, int axis, std::int64_t found, std::int64_t expected) {
    return verdict_of(SINKTRAP_ARGUMENT, buffer, axis, found, expected);
  };
  static std::int64_t strides[] = {2, 1};
  const struct {
    const char* what;
    std::function<void(LoadExample&)> damage;
    Verdict expected;
  } rows[] = {
      {"tp_size 0", [](LoadExample& x) { x.adapter.tp_size = 0; }, verdict_of(SINKTRAP_ARGUMENT)},
      {"tp_rank 2 of 2", [](LoadExample& x) { x.adapter.tp_rank = 2; }, verdict_of(SINKTRAP_ARGUMENT)},
      {"r = -1", [](LoadExample& x) { x.adapter.rank = -1; }, verdict_of(SINKTRAP_ARGUMENT)},
      {"struct_size", [](LoadExample& x) { x.adapter.struct_size = 8; }, verdict_of(SINKTRAP_ARGUMENT)},
      {"no gate A", [](LoadExample& x) { x.adapter.gate_a = nullptr; }, argument(A, -1, 0, 0)},
      {"up A without data", [](LoadExample& x) { x.views[1].data = nullptr; }, argument(A, -1, 0, 0)},
      {"3-D B", [](LoadExample& x) { x.views[2].ndim = 3; }, argument(B, -1, 0, 0)},
      {"B with padded rows", [](LoadExample& x) { x.views[2].strides = strides; }, argument(B, -1, 0, 0)},
      {"down B of another type",
       [](LoadExample& x) {
         x.views[4].dtype = {kDLBfloat, 16, 1}, x.adapter.rank = 9;
       },
       argument(DB, -1, 0, 0)},
      {"r = 3", [](LoadExample& x) { x.adapter.rank = 3, x.adapter.per_expert = 1; },
       verdict_of(SINKTRAP_RANK_EXCEEDED, -1, -1, 3, 2)},
      {"per expert into shared", [](LoadExample& x) { x.adapter.per_expert = 1; },
       verdict_of(SINKTRAP_LAYOUT_MISMATCH)},
      {"B rows",
       [](LoadExample& x) {
         x.gate_up_b = counting(Element::f32, {10, 1}), x.down_a = counting(Element::f32, {1, 3}), x.attach();
       },
       verdict_of(SINKTRAP_INDIVISIBLE, B, 0, 10, 4)},
      {"down A columns",
       [](LoadExample& x) {
         x.down_a = counting(Element::f32, {1, 3}), x.attach(), x.adapter.tp_size = 3;
       },
       verdict_of(SINKTRAP_INDIVISIBLE, DA, 1, 3, 2)},
      {"F_all", [](LoadExample& x) { x.adapter.tp_size = 4; }, verdict_of(SINKTRAP_INDIVISIBLE, B, 0, 2, 4)},
      {"gate A rows",
       [](LoadExample& x) {
         x.gate_a = counting(Element::f32, {2, 2}), x.attach();
       },
       argument(A, 0, 2, 1)},
      {"up A columns",
       [](LoadExample& x) {
         x.up_a = counting(Element::f32, {1, 3}), x.attach();
       },
       argument(A, 1, 3, 2)},
      {"F_all / tp is not F",
       [](LoadExample& x) {
         x.gate_up_b = counting(Element::f32, {16, 1}), x.attach();
       },
       argument(B, 0, 16, 8)},
      {"B columns",
       [](LoadExample& x) {
         x.gate_up_b = counting(Element::f32, {8, 2}), x.attach();
       },
       argument(B, 1, 2, 1)},
      {"down A rows",
       [](LoadExample& x) {
         x.down_a = counting(Element::f32, {2, 4}), x.attach();
       },
       argument(DA, 0, 2, 1)},
      {"down A columns that divide",
       [](LoadExample& x) {
         x.down_a = counting(Element::f32, {1, 2}), x.attach();
       },
       argument(DA, 1, 2, 4)},
      {"down B rows",
       [](LoadExample& x) {
         x.down_b = counting(Element::f32, {3, 1}), x.attach();
       },
       argument(DB, 0, 3, 2)},
  };
  for (const auto& row : rows) {
    PoolTensors p(Element::f32, 2, 1, 2, 2, 2, 1, 99);
    LoadExample example;
    row.damage(example);
    const Verdict v = load_slot(p.pool(), 1, &example.adapter);
    EXPECT_EQ(v, row.expected) << row.what << ": " << verdict_to_text(v);
    for (const Tensor& t : p.tensors)
      EXPECT_EQ(t.values(), Values(static_cast<std::size_t>(t.size()), 99)) << row.what;
    for (std::int64_t slot : {std::int64_t{-1}, std::int64_t{2}})
      EXPECT_EQ(load_slot(p.pool(), slot, &example.adapter),
                verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, slot, 2));
  }
  PoolTensors p(Element::f32, 2, 1, 2, 2, 2, 1, 99);
  EXPECT_EQ(load_slot(p.pool(), 0, nullptr), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(unload_slot(p.pool(), 2), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 2, 2));
  // A tp_size so large that the extents it asks for leave int64.
  LoadExample example;
  example.gate_up_b = Tensor(Element::f32, {0, 1}), example.attach();
  example.adapter.tp_size = INT64_MAX, example.adapter.tp_rank = INT64_MAX - 1;
  EXPECT_EQ(load_slot(p.pool(), 0, &example.adapter), argument(B, 0, 0, INT64_MAX));
}

TEST(Unload, ZeroesOneSlot) {
  PoolTensors p(Element::f16, 3, 1, 2, 2, 2, 1, 5);
  ASSERT_EQ(unload_slot(p.pool(), 1), verdict_of(SINKTRAP_OK));
  for (const Tensor& t : p.tensors) {
    const auto size = static_cast<std::size_t>(t.size() / 3);
    EXPECT_EQ(slot_values(t, 0), Values(size, 5));
    EXPECT_EQ(slot_values(t, 1), Values(size, 0));
    EXPECT_EQ(slot_values(t, 2), Values(size, 5));
  }
}

TEST(Shard, CutsTheHalvesByThemselves) {
  // S = 1, n = 1, R = 1, H = 1, F = 4 over two ranks.
  PoolTensors full(Element::f32, 1, 1, 1, 1, 1, 4, 7), part(Element::f32, 1, 1, 1, 1, 1, 2, 0);
  full.tensors[1] = counting(Element::f32, {1, 1, 8, 1});  // gate 1 2 3 4, up 5 6 7 8
  full.tensors[2] = counting(Element::f32, {1, 1, 1, 4});
  const auto from = full.views(), to = part.views();
  ASSERT_EQ(shard_pool(from.data(), 1, 2, to.data()), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(part.tensors[0].values(), (Values{7, 7}));
  EXPECT_EQ(part.tensors[1].values(), (Values{3, 4, 7, 8}));
  EXPECT_EQ(part.tensors[2].values(), (Values{3, 4}));
  EXPECT_EQ(part.tensors[3].values(), (Values{7}));

  EXPECT_EQ(shard_pool(from.data(), 0, 3, to.data()), verdict_of(SINKTRAP_INDIVISIBLE, 1, 2, 4, 3));
  EXPECT_EQ(shard_pool(from.data(), 2, 2, to.data()), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(shard_pool(from.data(), 0, 0, to.data()), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(shard_pool(from.data(), 0, 4, to.data()), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(shard_pool(nullptr, 0, 1, to.data()), verdict_of(SINKTRAP_ARGUMENT));
  auto broken = from;
  broken[2].ndim = 3;
  EXPECT_EQ(shard_pool(broken.data(), 0, 2, to.data()), verdict_of(SINKTRAP_ARGUMENT));
}

TEST(Expand, RepeatsAndCollapses) {
  const Tensor shared = counting(Element::bf16, {2, 1, 1, 2});
  Tensor wide(Element::bf16, {2, 3, 1, 2}), back(Element::bf16, {2, 1, 1, 2});
  const DLTensor shared_view = shared.view(), wide_view = wide.view(), back_view = back.view();
  ASSERT_EQ(expand_outer(&shared_view, SINKTRAP_BUFFER_GATE_UP_LORA_A, &wide_view), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(wide.values(), (Values{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
  ASSERT_EQ(collapse_outer(&wide_view, SINKTRAP_BUFFER_DOWN_LORA_B, &back_view), verdict_of(SINKTRAP_OK));
  EXPECT_TRUE(back.same_bits(shared));

  wide.set(10, -0.0), wide.set(6, 0.0), wide.set(8, 0.0);  // equal as numbers, not in bits
  EXPECT_EQ(collapse_outer(&wide_view, SINKTRAP_BUFFER_DOWN_LORA_B, &back_view),
            verdict_of(SINKTRAP_NOT_COLLAPSIBLE, SINKTRAP_BUFFER_DOWN_LORA_B, 1, 2, 0));
  EXPECT_TRUE(back.same_bits(shared));
  EXPECT_EQ(expand_outer(&shared_view, SINKTRAP_BUFFER_DOWN_LORA_A, &wide_view),
            verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(expand_outer(&wide_view, SINKTRAP_BUFFER_DOWN_LORA_B, &wide_view), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(expand_outer(&shared_view, SINKTRAP_BUFFER_DOWN_LORA_B, nullptr), verdict_of(SINKTRAP_ARGUMENT));
}

TEST(IsArray, TrustsNothing) {
  const Tensor t = counting(Element::f32, {2, 3});
  DLTensor v = t.view();
  EXPECT_TRUE(is_array(&v, Element::f32, {2, 3}));
  EXPECT_TRUE(is_array(&v, Element::f32, {-1, 3}));
  EXPECT_FALSE(is_array(nullptr, Element::f32, {2, 3}));
  EXPECT_FALSE(is_array(&v, Element::bf16, {2, 3}));
  EXPECT_FALSE(is_array(&v, Element::f32, {3, 2}));
  EXPECT_FALSE(is_array(&v, Element::f32, {2, 3, 1}));
  v.byte_offset = 2;
  EXPECT_FALSE(is_array(&v, Element::f32, {2, 3}));
  v.byte_offset = 0, v.device = {kDLCUDA, 0};
  EXPECT_FALSE(is_array(&v, Element::f32, {2, 3}));
  v.device = {kDLCPU, 1};
  EXPECT_FALSE(is_array(&v, Element::f32, {2, 3}));
  v.device = kHost;
  std::int64_t huge[] = {INT64_MAX, 3}, strides[] = {3, 1}, empty[] = {0, 3}, negative[] = {-2, 3};
  v.shape = huge, v.strides = strides;
  EXPECT_FALSE(is_array(&v, Element::f32, {-1, 3}));
  v.shape = negative;
  EXPECT_FALSE(is_array(&v, Element::f32, {-1, 3}));
  v.shape = empty, v.data = nullptr;
  EXPECT_TRUE(is_array(&v, Element::f32, {-1, 3}));
  v.shape = nullptr;
  EXPECT_FALSE(is_array(&v, Element::f32, {-1, 3}));
}

}  // namespace
}  // namespace sinktrap::reference
