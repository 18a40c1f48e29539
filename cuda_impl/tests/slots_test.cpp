// Binding, slots, derived operands, loading, shards, expansion and collapse on examples small enough to write
// down.
#include <algorithm>

#include "cuda_impl/tests/fixture.hpp"

namespace sinktrap::cuda_impl {
namespace {

constexpr Element kF32 = Element::f32;

// n 2, F 2, R 1, H 1, S 1: gate_up_lora_b rows are gate 1 2, up 3 4 of expert 0, then 5 6 7 8.
void number_pool(Layer& layer, std::int64_t S, std::int64_t outer, std::int64_t R) {
  layer.make_pool(S, outer, R);
  for (HostTensor& t : layer.pool) t.count_from(1);
}

TEST(Slots, DerivedOperandsByHand) {
  Layer layer(kF32, 2, 1, 2);
  number_pool(layer, 1, 1, 1);
  EXPECT_EQ(layer.operand("w1_delta", {}), Values{});
  EXPECT_EQ(layer.verdict.code, SINKTRAP_UNBOUND);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK) << layer.table.last_error();
  EXPECT_EQ(layer.operand("w1_delta", {1, 8, 2}), (Values{1, 0, 0, 3, 2, 0, 0, 4, 5, 0, 0, 7, 6, 0, 0, 8}));
  EXPECT_EQ(layer.operand("a_cat", {1, 1, 4}), (Values{1, 2, 3, 4}));
  layer.operand("b_cat", {});
  EXPECT_EQ(layer.verdict.code, SINKTRAP_UNSUPPORTED);
  layer.operand("w9", {});
  EXPECT_EQ(layer.verdict.code, SINKTRAP_UNSUPPORTED);
}

TEST(Slots, CatsPermuteExpertsAndRanks) {
  // down_lora_a [1, n 2, R 2, F 2]: expert 0 rows (1 2) (3 4), expert 1 rows (5 6) (7 8).
  Layer shared(kF32, 2, 1, 2);
  number_pool(shared, 1, 1, 2);
  ASSERT_EQ(shared.bind().code, SINKTRAP_OK);
  EXPECT_EQ(shared.operand("a_cat", {1, 2, 4}), (Values{1, 2, 5, 6, 3, 4, 7, 8}));
  // down_lora_b [1, n 2, H 3, R 2]: expert 0 rows (1 2) (3 4) (5 6), expert 1 (7 8) (9 10) (11 12).
  Layer per_expert(kF32, 2, 3, 2);
  number_pool(per_expert, 1, 2, 2);
  ASSERT_EQ(per_expert.bind().code, SINKTRAP_OK);
  EXPECT_EQ(per_expert.operand("b_cat", {1, 3, 4}), (Values{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}));
  per_expert.operand("a_cat", {});
  EXPECT_EQ(per_expert.verdict.code, SINKTRAP_UNSUPPORTED);
}

TEST(Slots, UpdateTouchesExactlyItsSlotsInPlace) {
  Layer layer(kF32, 1, 1, 1);
  number_pool(layer, 3, 1, 1);
  EXPECT_EQ(layer.update({0}).code, SINKTRAP_UNBOUND);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  const Values before = layer.operand("w1_delta", {3, 2, 2});
  EXPECT_EQ(before, (Values{1, 0, 0, 2, 3, 0, 0, 4, 5, 0, 0, 6}));
  void* const address = layer.operand_address;
  layer.pool[1].count_from(11);
  EXPECT_EQ(layer.update({}).code, SINKTRAP_OK);
  EXPECT_EQ(layer.operand("w1_delta", {3, 2, 2}), before) << "an empty set is not all slots";
  EXPECT_EQ(layer.update({1, 1}).code, SINKTRAP_OK);
  EXPECT_EQ(layer.operand("w1_delta", {3, 2, 2}), (Values{1, 0, 0, 2, 13, 0, 0, 14, 5, 0, 0, 6}));
  EXPECT_EQ(layer.update({2, 3, -1}), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 3, 3));
  EXPECT_EQ(layer.operand("w1_delta", {3, 2, 2})[8], 5) << "nothing changed";
  EXPECT_EQ(layer.table.update(layer.instance, nullptr, &layer.verdict), SINKTRAP_OK);
  EXPECT_EQ(layer.operand("w1_delta", {3, 2, 2}), (Values{11, 0, 0, 12, 13, 0, 0, 14, 15, 0, 0, 16}));
  EXPECT_EQ(layer.operand_address, address);
  const sinktrap_slot_set bad{nullptr, 2};
  EXPECT_EQ(layer.table.update(layer.instance, &bad, &layer.verdict), SINKTRAP_ARGUMENT);
}

TEST(Slots, AFailedBindKeepsThePreviousOne) {
  Layer layer(kF32, 2, 1, 1);
  number_pool(layer, 2, 1, 1);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  const Values before = layer.operand("w1_delta", {2, 4, 2});
  void* const address = layer.operand_address;
  const auto first = layer.pool;

  layer.make_pool(3, 1, 1);
  EXPECT_EQ(layer.bind(), verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 0, 3, 2));
  layer.make_pool(2, 2, 1);
  EXPECT_EQ(layer.bind(), verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 1, 2, 1));
  layer.pool[3] = HostTensor(kF32, {2, 1, 1, 1});
  EXPECT_EQ(layer.bind().code, SINKTRAP_LAYOUT_MISMATCH);
  layer.type = Element::bf16;
  layer.make_pool(2, 1, 1);
  layer.type = kF32;
  EXPECT_EQ(layer.bind(),
            verdict_of(SINKTRAP_DTYPE, 0, -1, (4 << 24) + (16 << 16) + 1, (2 << 24) + (32 << 16) + 1));
  EXPECT_EQ(layer.operand("w1_delta", {2, 4, 2}), before);

  layer.pool = first;  // other addresses, equal shape
  layer.pool[1].count_from(21);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  EXPECT_EQ(layer.operand("w1_delta", {2, 4, 2})[0], 21);
  EXPECT_EQ(layer.operand_address, address);
}

// A checkpoint's factors for n 2, H 2, F_all 2.
struct Adapter {
  Adapter(Element type, std::int64_t r, std::int64_t copies)
      : gate_a(type, {copies * r, 2}),
        up_a(type, {copies * r, 2}),
        gate_up_b(type, {8, r}),
        down_a(type, {r, 4}),
        down_b(type, {copies * 2, r}),
        rank(r),
        per_expert(copies > 1) {
    gate_a.count_from(1), up_a.count_from(21), gate_up_b.count_from(41), down_a.count_from(61),
        down_b.count_from(81);
  }
  Verdict load(Layer& layer, std::int64_t slot, float scaling = 1, std::int64_t tp_rank = 0,
               std::int64_t tp_size = 1) {
    DLTensor views[] = {gate_a.view(), up_a.view(), gate_up_b.view(), down_a.view(), down_b.view()};
    sinktrap_adapter a{
        sizeof(sinktrap_adapter),      per_expert, rank,      scaling,  0, tp_rank, tp_size, &views[0],
        stacked ? nullptr : &views[1], &views[2],  &views[3], &views[4]};
    if (rank == 0) a.gate_a = a.up_a = a.gate_up_b = a.down_a = a.down_b = nullptr;
    layer.table.load(layer.instance, slot, &a, &layer.verdict);
    return layer.verdict;
  }
  HostTensor gate_a, up_a, gate_up_b, down_a, down_b;
  std::int64_t rank;
  bool per_expert, stacked = false;
};

TEST(Load, ASmallerRankGoesToOffsetRAndItsTailsAreZeroed) {
  Layer layer(kF32, 2, 2, 2);
  layer.make_pool(2, 1, 2);
  for (HostTensor& t : layer.pool) t.fill(9);
  Adapter adapter(kF32, 1, 1);
  EXPECT_EQ(adapter.load(layer, 1).code, SINKTRAP_UNBOUND);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  ASSERT_EQ(adapter.load(layer, 1, 2.0f).code, SINKTRAP_OK) << layer.table.last_error();
  const auto slot = [](const HostTensor& t, int s) {
    const Values v = t.values();
    const auto half = static_cast<std::ptrdiff_t>(v.size() / 2);
    return Values(v.begin() + s * half, v.begin() + (s + 1) * half);
  };
  for (const HostTensor& t : layer.pool)
    for (double v : slot(t, 0)) EXPECT_EQ(v, 9) << "the other slot";
  EXPECT_EQ(slot(layer.pool[0], 1), (Values{1, 2, 0, 0, 21, 22, 0, 0}));
  EXPECT_EQ(slot(layer.pool[1], 1), (Values{82, 0, 84, 0, 86, 0, 88, 0, 90, 0, 92, 0, 94, 0, 96, 0}));
  EXPECT_EQ(slot(layer.pool[2], 1), (Values{61, 62, 0, 0, 63, 64, 0, 0}));
  EXPECT_EQ(slot(layer.pool[3], 1), (Values{162, 0, 164, 0}));

  ASSERT_EQ(layer.table.unload(layer.instance, 1, &layer.verdict), SINKTRAP_OK);
  for (const HostTensor& t : layer.pool)
    for (double v : slot(t, 1)) EXPECT_EQ(v, 0);
  EXPECT_EQ(layer.table.unload(layer.instance, 2, &layer.verdict), SINKTRAP_SLOT_RANGE);
  adapter.stacked = true;
  ASSERT_EQ(adapter.load(layer, 1).code, SINKTRAP_OK);
  EXPECT_EQ(slot(layer.pool[0], 1), (Values{1, 2, 0, 0, 1, 2, 0, 0})) << "one A for both halves";
  adapter.rank = 0;
  ASSERT_EQ(adapter.load(layer, 1).code, SINKTRAP_OK);
  for (const HostTensor& t : layer.pool)
    for (double v : slot(t, 1)) EXPECT_EQ(v, 0);
}

TEST(Load, PerExpertFactorsAndRepeatedSharedOnes) {
  Layer layer(kF32, 2, 2, 2);
  layer.make_pool(1, 2, 1);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  Adapter own(kF32, 1, 2), shared(kF32, 1, 1);
  ASSERT_EQ(own.load(layer, 0).code, SINKTRAP_OK) << layer.table.last_error();
  EXPECT_EQ(layer.pool[0].values(), (Values{1, 2, 21, 22, 3, 4, 23, 24}));
  EXPECT_EQ(layer.pool[3].values(), (Values{81, 82, 83, 84}));
  ASSERT_EQ(shared.load(layer, 0).code, SINKTRAP_OK);
  EXPECT_EQ(layer.pool[0].values(), (Values{1, 2, 21, 22, 1, 2, 21, 22}));
  EXPECT_EQ(layer.pool[3].values(), (Values{81, 82, 81, 82}));

  Layer shared_pool(kF32, 2, 2, 2);
  shared_pool.make_pool(1, 1, 1);
  ASSERT_EQ(shared_pool.bind().code, SINKTRAP_OK);
  EXPECT_EQ(own.load(shared_pool, 0), verdict_of(SINKTRAP_LAYOUT_MISMATCH));
}

TEST(Load, TensorParallelRanksTakeGateAndUpSeparately) {
  for (std::int64_t p : {0, 1}) {
    Layer layer(kF32, 2, 2, 1);
    layer.make_pool(1, 1, 1);
    ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
    ASSERT_EQ(Adapter(kF32, 1, 1).load(layer, 0, 1, p, 2).code, SINKTRAP_OK) << layer.table.last_error();
    const double d = static_cast<double>(p);
    EXPECT_EQ(layer.pool[1].values(), (Values{41 + d, 43 + d, 45 + d, 47 + d}));
    EXPECT_EQ(layer.pool[2].values(), (Values{61 + d, 63 + d}));
    EXPECT_EQ(layer.pool[0].values(), (Values{1, 2, 21, 22}));
    EXPECT_EQ(layer.pool[3].values(), (Values{81, 82}));
  }
}

TEST(Load, ScaledFactorsAreRoundedOnceToStorage) {
  Layer layer(Element::bf16, 2, 2, 2);
  layer.make_pool(1, 1, 1);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  Adapter adapter(Element::bf16, 1, 1);
  ASSERT_EQ(adapter.load(layer, 0, 1.1f).code, SINKTRAP_OK);
  EXPECT_EQ(layer.pool[1].at(0), round_to(Element::bf16, 1.1f * 41.0f));
  EXPECT_EQ(adapter.gate_up_b.at(0), 41);
}

TEST(Load, RefusesInTheOrderOfTheContract) {
  Layer layer(kF32, 2, 2, 2);
  layer.make_pool(2, 1, 2);
  for (HostTensor& t : layer.pool) t.fill(9);
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  Adapter good(kF32, 1, 1);
  EXPECT_EQ(good.load(layer, 2), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 2, 2));
  EXPECT_EQ(good.load(layer, -1), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, -1, 2));
  EXPECT_EQ(good.load(layer, 0, 1, 1, 1), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(good.load(layer, 0, 1, 0, 0), verdict_of(SINKTRAP_ARGUMENT));
  Adapter negative = good;
  negative.rank = -1;
  EXPECT_EQ(negative.load(layer, 0), verdict_of(SINKTRAP_ARGUMENT));
  Adapter wrong_type = good;
  wrong_type.down_a = HostTensor(Element::f16, {1, 4});
  EXPECT_EQ(wrong_type.load(layer, 0), verdict_of(SINKTRAP_ARGUMENT, 2, -1, 0, 0));
  EXPECT_EQ(Adapter(kF32, 3, 1).load(layer, 0), verdict_of(SINKTRAP_RANK_EXCEEDED, -1, -1, 3, 2));
  Adapter rows = good;
  rows.gate_up_b = HostTensor(kF32, {7, 1});
  EXPECT_EQ(rows.load(layer, 0), verdict_of(SINKTRAP_INDIVISIBLE, 1, 0, 7, 4));
  Adapter columns = good;
  columns.down_a = HostTensor(kF32, {1, 5});
  EXPECT_EQ(columns.load(layer, 0), verdict_of(SINKTRAP_INDIVISIBLE, 2, 1, 5, 2));
  EXPECT_EQ(good.load(layer, 0, 1, 0, 3), verdict_of(SINKTRAP_INDIVISIBLE, 1, 0, 2, 3));
  Adapter narrow = good;
  narrow.down_b = HostTensor(kF32, {1, 1});
  EXPECT_EQ(narrow.load(layer, 0), verdict_of(SINKTRAP_ARGUMENT, 3, 0, 1, 2));
  for (const HostTensor& t : layer.pool)
    for (double v : t.values()) EXPECT_EQ(v, 9) << "a refused load writes nothing";
}

TEST(Shard, CutsHalvesSeparately) {
  Layer layer(kF32, 2, 1, 2);
  number_pool(layer, 1, 1, 1);
  DLTensor full[] = {layer.pool[0].view(), layer.pool[1].view(), layer.pool[2].view(), layer.pool[3].view()};
  for (std::int64_t p : {0, 1}) {
    HostTensor part[] = {HostTensor(kF32, {1, 1, 2, 1}), HostTensor(kF32, {1, 2, 2, 1}),
                         HostTensor(kF32, {1, 2, 1, 1}), HostTensor(kF32, {1, 1, 1, 1})};
    DLTensor shard[] = {part[0].view(), part[1].view(), part[2].view(), part[3].view()};
    Verdict v{};
    ASSERT_EQ(layer.table.shard(full, p, 2, shard, &v), SINKTRAP_OK) << layer.table.last_error();
    const double d = static_cast<double>(p);
    EXPECT_EQ(part[0].values(), layer.pool[0].values());
    EXPECT_EQ(part[1].values(), (Values{1 + d, 3 + d, 5 + d, 7 + d}));
    EXPECT_EQ(part[2].values(), (Values{1 + d, 3 + d}));
    EXPECT_EQ(part[3].values(), layer.pool[3].values());
    EXPECT_EQ(layer.table.shard(full, p, 3, shard, &v), SINKTRAP_INDIVISIBLE);
    EXPECT_EQ(v, verdict_of(SINKTRAP_INDIVISIBLE, 1, 2, 2, 3));
    EXPECT_EQ(layer.table.shard(full, 2, 2, shard, &v), SINKTRAP_ARGUMENT);
    EXPECT_EQ(layer.table.shard(full, 0, 1, shard, &v), SINKTRAP_ARGUMENT) << "shards of the wrong size";
    EXPECT_EQ(layer.table.shard(nullptr, 0, 1, shard, &v), SINKTRAP_ARGUMENT);
  }
}

TEST(Expand, RoundTripAndRefusal) {
  const auto& table = *simt_ordered_table();
  for (Element type : {Element::bf16, kF32}) {
    HostTensor shared(type, {2, 1, 2, 2}), per_expert(type, {2, 3, 2, 2}), back(type, {2, 1, 2, 2});
    shared.count_from(1);
    DLTensor s = shared.view(), p = per_expert.view(), b = back.view();
    Verdict v{};
    ASSERT_EQ(table.expand(&s, SINKTRAP_BUFFER_GATE_UP_LORA_A, &p, &v), SINKTRAP_OK) << table.last_error();
    EXPECT_EQ(per_expert.values(),
              (Values{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8}));
    ASSERT_EQ(table.collapse(&p, SINKTRAP_BUFFER_GATE_UP_LORA_A, &b, &v), SINKTRAP_OK) << table.last_error();
    EXPECT_EQ(back.values(), shared.values());
    per_expert.set(22, 8.5);
    back.fill(3);
    EXPECT_EQ(table.collapse(&p, SINKTRAP_BUFFER_DOWN_LORA_B, &b, &v), SINKTRAP_NOT_COLLAPSIBLE);
    EXPECT_EQ(v, verdict_of(SINKTRAP_NOT_COLLAPSIBLE, SINKTRAP_BUFFER_DOWN_LORA_B, 1, 2, 0));
    EXPECT_NE(std::string(table.last_error()).find("slot 1: expert 2"), std::string::npos)
        << table.last_error();
    EXPECT_EQ(back.values(), Values(8, 3)) << "nothing was written";
    EXPECT_EQ(table.expand(&s, SINKTRAP_BUFFER_DOWN_LORA_A, &p, &v), SINKTRAP_ARGUMENT);
    EXPECT_EQ(table.expand(&p, SINKTRAP_BUFFER_DOWN_LORA_B, &s, &v), SINKTRAP_ARGUMENT);
    EXPECT_EQ(table.collapse(nullptr, SINKTRAP_BUFFER_DOWN_LORA_B, &s, &v), SINKTRAP_ARGUMENT);
  }
}

// 0 and -0 are equal values and different bits.
TEST(Expand, CollapseComparesBits) {
  HostTensor per_expert(kF32, {1, 2, 1, 1}, {0.0, -0.0}), shared(kF32, {1, 1, 1, 1});
  DLTensor p = per_expert.view(), s = shared.view();
  Verdict v{};
  EXPECT_EQ(simt_ordered_table()->collapse(&p, SINKTRAP_BUFFER_DOWN_LORA_B, &s, &v),
            SINKTRAP_NOT_COLLAPSIBLE);
}

}  // namespace
}  // namespace sinktrap::cuda_impl
