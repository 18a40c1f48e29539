// Slots, loading, sharding and repair of plain_c.
#include "mutants/tests/plain_c_test.hpp"

namespace sinktrap::test {
namespace {

// A flat adapter of rank 1 for Layer: what put_adapter writes, with scaling 0.5 and doubled B factors.
struct Flat {
  Tensor gate_a = tensor({1, 1}, {2}), up_a = tensor({1, 1}, {4});
  Tensor gate_up_b = tensor({4, 1}, {2, 2, 4, 4}), down_a = tensor({1, 2}, {1, 1}),
         down_b = tensor({1, 1}, {1});
  DLTensor views[5] = {gate_a.view(), up_a.view(), gate_up_b.view(), down_a.view(), down_b.view()};
  sinktrap_adapter adapter{
      sizeof(sinktrap_adapter), 0, 1, 0.5f, 0, 0, 1, &views[0], &views[1], &views[2], &views[3], &views[4]};
};

std::vector<std::int64_t> shape_of(const DLTensor& view) {
  const auto found = extents(view);
  return {found.begin(), found.end()};
}

Verdict load(const sinktrap_implementation_table* table, Layer& layer, std::int64_t slot,
             const sinktrap_adapter& adapter) {
  Verdict v{};
  EXPECT_EQ(table->load(layer.instance, slot, &adapter, &v), v.code);
  return v;
}

TEST(PlainC, loaded_adapter_is_served_after_update_and_gone_after_unload) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Layer layer(table), expected(table);
  Flat flat;
  EXPECT_EQ(load(table, layer, 0, flat.adapter), verdict_of(SINKTRAP_UNBOUND));
  layer.put_adapter(1, 9, 9, 9, 9, 9, 9);
  for (auto& buffer : layer.pool)
    for (std::int64_t i = buffer.size() / 2; i < buffer.size(); ++i) buffer.set(i, 9);  // tails of slot 1 too
  ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(load(table, layer, 2, flat.adapter), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 2, 2));
  EXPECT_EQ(load(table, layer, 1, flat.adapter), verdict_of(SINKTRAP_OK));
  expected.put_adapter(1, 2, 4, 1, 1, 1, 0.5);
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    EXPECT_TRUE(layer.pool[b].same_bits(expected.pool[b])) << buffer_name(static_cast<std::int32_t>(b));
  EXPECT_EQ(layer.update({1, 1}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.update({0, -1}), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, -1, 2));
  ASSERT_EQ(layer.forward({1, 0}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.out.values(), (std::vector<double>{kAdapted, kBase, -7}));
  Verdict v{};
  EXPECT_EQ(table->unload(layer.instance, 1, &v), SINKTRAP_OK);
  EXPECT_EQ(layer.update({1}), verdict_of(SINKTRAP_OK));
  ASSERT_EQ(layer.forward({1}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.out.at(0), kBase);
}

TEST(PlainC, refused_load_says_why_and_changes_nothing) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Layer layer(table);
  layer.put_adapter(0, 1, 2, 3, 4, 5, 6);
  ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
  const auto before = layer.pool;
  Flat flat;
  auto bad = flat.adapter;
  bad.rank = 3;
  EXPECT_EQ(load(table, layer, 0, bad), verdict_of(SINKTRAP_RANK_EXCEEDED, -1, -1, 3, 2));
  bad = flat.adapter;
  bad.per_expert = 1;
  EXPECT_EQ(load(table, layer, 0, bad).code, SINKTRAP_LAYOUT_MISMATCH);
  bad = flat.adapter;
  bad.tp_rank = 1;
  EXPECT_EQ(load(table, layer, 0, bad), verdict_of(SINKTRAP_ARGUMENT));
  bad = flat.adapter;
  bad.down_b = nullptr;
  EXPECT_EQ(load(table, layer, 0, bad), verdict_of(SINKTRAP_ARGUMENT, SINKTRAP_BUFFER_DOWN_LORA_B, -1, 0, 0));
  bad = flat.adapter;
  bad.up_a = &flat.views[3];
  EXPECT_EQ(load(table, layer, 0, bad),
            verdict_of(SINKTRAP_ARGUMENT, SINKTRAP_BUFFER_GATE_UP_LORA_A, 1, 2, 1));
  const Tensor three_rows = tensor({3, 1}, {1, 1, 1});
  const DLTensor three_view = three_rows.view();
  bad = flat.adapter;
  bad.gate_up_b = &three_view;
  const Verdict v = load(table, layer, 0, bad);
  EXPECT_EQ(v, verdict_of(SINKTRAP_INDIVISIBLE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 0, 3, 4));
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) EXPECT_TRUE(layer.pool[b].same_bits(before[b]));
}

TEST(PlainC, faults_of_loading_and_updating_show) {
  const auto pool_after = [](const char* fault) {
    const auto* table = open_table(fault);
    Layer layer(table);
    for (auto& buffer : layer.pool)
      for (std::int64_t i = 0; i < buffer.size(); ++i) buffer.set(i, 9);
    EXPECT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
    Flat flat;
    EXPECT_EQ(load(table, layer, 0, flat.adapter), verdict_of(SINKTRAP_OK));
    return layer.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].values();
  };
  EXPECT_EQ(pool_after(""), (std::vector<double>{2, 0, 4, 0, 9, 9, 9, 9}));
  EXPECT_EQ(pool_after("_up_half_at_r"), (std::vector<double>{2, 4, 0, 0, 9, 9, 9, 9}));
  EXPECT_EQ(pool_after("_tail_not_zeroed"), (std::vector<double>{2, 9, 4, 9, 9, 9, 9, 9}));

  Layer stale(open_table("_stale_slot"));
  ASSERT_EQ(stale.bind(), verdict_of(SINKTRAP_OK));
  stale.put_adapter(1, 2, 4, 1, 1, 1, 0.5);
  EXPECT_EQ(stale.update({1}), verdict_of(SINKTRAP_OK));
  ASSERT_EQ(stale.forward({1}), verdict_of(SINKTRAP_OK));
  EXPECT_NE(stale.out.at(0), kAdapted);
}

TEST(PlainC, refused_bind_leaves_the_old_pool_serving) {
  Layer layer(open_table());
  layer.put_adapter(1, 2, 4, 1, 1, 1, 0.5);
  ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
  std::array<Tensor, SINKTRAP_BUFFER_COUNT> other = {tensor({1, 1, 4, 1}, {}), tensor({1, 2, 2, 2}, {}),
                                                     tensor({1, 2, 2, 1}, {}), tensor({1, 1, 1, 2}, {})};
  layer.pool.swap(other);
  EXPECT_EQ(layer.bind(), verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 0, 1, 2));
  ASSERT_EQ(layer.forward({1}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.out.at(0), kAdapted);
}

TEST(PlainC, derived_operands_have_the_layout_of_the_contract) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Layer layer(table);
  for (auto& buffer : layer.pool)
    for (std::int64_t i = 0; i < buffer.size(); ++i) buffer.set(i, static_cast<double>(i + 1));
  DLTensor view{};
  Verdict v{};
  EXPECT_EQ(table->derived(layer.instance, "w1_delta", &view, &v), SINKTRAP_UNBOUND);
  ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
  ASSERT_EQ(table->derived(layer.instance, "w1_delta", &view, &v), SINKTRAP_OK);
  ASSERT_EQ(shape_of(view), (std::vector<std::int64_t>{2, 4, 4}));
  const auto* w1 = static_cast<const float*>(view.data);
  // Slot 0: gate of expert 0 in columns 0 and 1, its up row in columns 2 and 3; then expert 1.
  EXPECT_EQ(std::vector<float>(w1, w1 + 16),
            (std::vector<float>{1, 2, 0, 0, 0, 0, 3, 4, 5, 6, 0, 0, 0, 0, 7, 8}));
  ASSERT_EQ(table->derived(layer.instance, "a_cat", &view, &v), SINKTRAP_OK);
  ASSERT_EQ(shape_of(view), (std::vector<std::int64_t>{2, 2, 2}));
  const auto* a_cat = static_cast<const float*>(view.data);
  EXPECT_EQ(std::vector<float>(a_cat, a_cat + 4), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(table->derived(layer.instance, "b_cat", &view, &v), SINKTRAP_UNSUPPORTED);
}

TEST(PlainC, shards_take_gate_and_up_rows_separately) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  // n = 1, S = 1, R = 1, H = 1, F = 2: gate rows 1 and 2, up rows 3 and 4.
  std::array<Tensor, 4> full = {tensor({1, 1, 2, 1}, {5, 6}), tensor({1, 1, 4, 1}, {1, 2, 3, 4}),
                                tensor({1, 1, 1, 2}, {7, 8}), tensor({1, 1, 1, 1}, {9})};
  std::array<Tensor, 4> shard = {tensor({1, 1, 2, 1}, {}), tensor({1, 1, 2, 1}, {}), tensor({1, 1, 1, 1}, {}),
                                 tensor({1, 1, 1, 1}, {})};
  DLTensor from[4], to[4];
  for (std::size_t b = 0; b < 4; ++b) {
    from[b] = full[b].view();
    to[b] = shard[b].view();
  }
  Verdict v{};
  EXPECT_EQ(table->shard(from, 1, 2, to, &v), SINKTRAP_OK);
  EXPECT_EQ(shard[0].values(), (std::vector<double>{5, 6}));
  EXPECT_EQ(shard[1].values(), (std::vector<double>{2, 4}));
  EXPECT_EQ(shard[2].values(), (std::vector<double>{8}));
  EXPECT_EQ(shard[3].values(), (std::vector<double>{9}));
  table->shard(from, 0, 3, to, &v);
  EXPECT_EQ(v, verdict_of(SINKTRAP_INDIVISIBLE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 2, 2, 3));
  table->shard(from, 2, 2, to, &v);
  EXPECT_EQ(v, verdict_of(SINKTRAP_ARGUMENT));
}

TEST(PlainC, collapse_undoes_expand_and_refuses_one_bit_of_difference) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Tensor shared = tensor({2, 1, 1, 2}, {1, 2, 3, 4}), per_expert = tensor({2, 3, 1, 2}, {});
  Tensor back = tensor({2, 1, 1, 2}, {8, 8, 8, 8});
  const DLTensor shared_view = shared.view(), per_expert_view = per_expert.view(), back_view = back.view();
  const std::int32_t buffer = SINKTRAP_BUFFER_DOWN_LORA_B;
  Verdict v{};
  ASSERT_EQ(table->expand(&shared_view, buffer, &per_expert_view, &v), SINKTRAP_OK);
  EXPECT_EQ(per_expert.values(), (std::vector<double>{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
  per_expert.bytes()[per_expert.bytes().size() - 1] ^= std::byte{0x80};  // -4 in the last copy
  EXPECT_EQ(table->collapse(&per_expert_view, buffer, &back_view, &v), SINKTRAP_NOT_COLLAPSIBLE);
  EXPECT_EQ(v, verdict_of(SINKTRAP_NOT_COLLAPSIBLE, buffer, 1, 2, 0));  // expert 2 differs
  EXPECT_EQ(back.at(0), 8);
  per_expert.bytes()[per_expert.bytes().size() - 1] ^= std::byte{0x80};
  ASSERT_EQ(table->collapse(&per_expert_view, buffer, &back_view, &v), SINKTRAP_OK);
  EXPECT_TRUE(back.same_bits(shared));
  EXPECT_EQ(table->expand(&shared_view, SINKTRAP_BUFFER_DOWN_LORA_A, &per_expert_view, &v),
            SINKTRAP_ARGUMENT);
}

}  // namespace
}  // namespace sinktrap::test
