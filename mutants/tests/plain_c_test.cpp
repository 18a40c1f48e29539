// The table, validation and forward of plain_c on numbers worked out by hand, and every fault where it has to
// show.
#include "mutants/tests/plain_c_test.hpp"

namespace sinktrap::test {
namespace {

// n = 2, S = 3, R = 4, H = 6, F = 5, shared-outer, without memory.
struct Shapes {
  std::int64_t shape[SINKTRAP_BUFFER_COUNT][4] = {{3, 1, 8, 6}, {3, 2, 10, 4}, {3, 2, 4, 5}, {3, 1, 6, 4}};
  sinktrap_layout layout() {
    sinktrap_layout l{};
    l.n_shared_experts = 2;
    l.hidden_size = l.intermediate_size = SINKTRAP_ANY;
    l.flags = SINKTRAP_SHAPES_ONLY;
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
      l.buffers[b].ndim = 4;
      l.buffers[b].shape = shape[b];
      l.buffers[b].dtype = dl_type(Element::bf16);
      l.buffers[b].device = {kDLCPU, 0};
    }
    return l;
  }
};

Verdict judge(const sinktrap_implementation_table* table, const sinktrap_layout& layout,
              std::int32_t profile = SINKTRAP_PROFILE_STRICT) {
  Verdict v{};
  EXPECT_EQ(table->validate(&layout, 1, profile, &v), SINKTRAP_OK);
  return v;
}

TEST(PlainC, table_is_complete_and_of_this_version) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->abi_version, SINKTRAP_ABI_VERSION);
  EXPECT_EQ(table->struct_size, sizeof *table);
  EXPECT_STREQ(table->name, "plain_c");
  EXPECT_EQ(table->declaration.seams_declared, 1);
  EXPECT_EQ(table->declaration.seams, 0u);
  for (bool present : {table->validate != nullptr, table->create != nullptr, table->destroy != nullptr,
                       table->bind != nullptr, table->forward != nullptr, table->update != nullptr,
                       table->load != nullptr, table->unload != nullptr, table->shard != nullptr,
                       table->expand != nullptr, table->collapse != nullptr, table->derived != nullptr})
    EXPECT_TRUE(present);
}

TEST(PlainC, verdict_names_buffer_axis_found_and_expected) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(judge(table, Shapes{}.layout()), verdict_of(SINKTRAP_OK));
  struct Row {
    int buffer, axis;
    std::int64_t extent;
    Verdict expected;
  };
  const std::vector<Row> rows = {
      {0, 1, 3, verdict_of(SINKTRAP_OUTER_DIM, 0, 1, 3, 2)},
      {3, 1, 2, verdict_of(SINKTRAP_LAYOUT_MISMATCH, 3, 1, 2, 1)},
      {1, 1, 1, verdict_of(SINKTRAP_EXPERT_COUNT, 1, 1, 1, 2)},
      {0, 2, 7, verdict_of(SINKTRAP_RANK_MISMATCH, 0, 2, 7, 8)},
      {1, 3, INT64_MAX, verdict_of(SINKTRAP_RANK_MISMATCH, 0, 2, 8, INT64_MAX)},
      {2, 2, 3, verdict_of(SINKTRAP_RANK_MISMATCH, 2, 2, 3, 4)},
      {3, 3, 5, verdict_of(SINKTRAP_RANK_MISMATCH, 3, 3, 5, 4)},
      {1, 0, 0, verdict_of(SINKTRAP_EXTENT, 1, 0, 0, 1)},
      {2, 0, 4, verdict_of(SINKTRAP_SLOT_COUNT, 2, 0, 4, 3)},
      {3, 2, 7, verdict_of(SINKTRAP_HIDDEN_SIZE, 3, 2, 7, 6)},
      {1, 2, 11, verdict_of(SINKTRAP_INTERMEDIATE_SIZE, 1, 2, 11, 10)},
      {2, 3, INT64_MAX, verdict_of(SINKTRAP_INTERMEDIATE_SIZE, 1, 2, 10, INT64_MAX)},
  };
  for (const Row& row : rows) {
    Shapes shapes;
    shapes.shape[row.buffer][row.axis] = row.extent;
    const Verdict found = judge(table, shapes.layout());
    EXPECT_EQ(found, row.expected) << verdict_to_text(found) << " instead of "
                                   << verdict_to_text(row.expected);
  }
}

TEST(PlainC, verdict_on_descriptors_and_memory) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Shapes shapes;
  auto layout = shapes.layout();
  layout.buffers[2].ndim = 3;
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_NOT_4D, 2, -1, 3, 4));
  layout = shapes.layout();
  layout.buffers[1].dtype = dl_type(Element::f64);
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_DTYPE, 1, -1, (2 << 24) + (64 << 16) + 1, 0));
  layout = shapes.layout();
  layout.buffers[3].device = {kDLCUDA, 1};
  EXPECT_EQ(judge(table, layout),
            verdict_of(SINKTRAP_DEVICE, 3, -1, (std::int64_t{2} << 32) + 1, std::int64_t{1} << 32));
  layout = shapes.layout();
  std::int64_t strides[4] = {48, 99, 6, 2};  // 99 belongs to an axis of extent 1
  layout.buffers[0].strides = strides;
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_STRIDE, 0, 3, 2, 1));
  layout = shapes.layout();
  layout.flags = 0;
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_DATA, 0, -1, 0, 2));
  for (std::uintptr_t b = 0; b < 4; ++b) layout.buffers[b].data = reinterpret_cast<void*>(0x10000 * (b + 1));
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_OK));
  layout.buffers[2].data = layout.buffers[0].data;
  layout.buffers[2].byte_offset = 286;  // of 288 bytes of gate_up_lora_a the last two
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_ALIASING, 2, -1, 2, 0));
  layout.buffers[2].byte_offset = 287;
  EXPECT_EQ(judge(table, layout), verdict_of(SINKTRAP_DATA, 2, -1, 1, 0));
  layout = shapes.layout();
  shapes.shape[0][0] = shapes.shape[1][0] = shapes.shape[2][0] = shapes.shape[3][0] = INT64_MAX / 32;
  EXPECT_EQ(judge(table, layout),
            verdict_of(SINKTRAP_SIZE_OVERFLOW, 0, 3, 6, INT64_MAX / (INT64_MAX / 32 * 16)));
}

TEST(PlainC, forward_equals_the_sum_done_by_hand) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  Layer layer(table);
  EXPECT_EQ(layer.forward({-1}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.out.at(0), kBase);
  EXPECT_EQ(layer.forward({-1, 0}), verdict_of(SINKTRAP_UNBOUND));
  layer.put_adapter(1, 2, 4, 1, 1, 1, 0.5);
  ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.forward({1, -1, 0, 1}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(layer.out.values(), (std::vector<double>{kAdapted, kBase, kBase, kAdapted, -7}));
  EXPECT_EQ(layer.forward({0, 2, -5}), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 2, 2));
  EXPECT_EQ(layer.out.values(), (std::vector<double>{-7, -7, -7, -7}));
}

TEST(PlainC, faults_of_forward_show) {
  struct Row {
    const char* fault;
    std::vector<double> out;  // of {slot 1, -1} with the adapter of kAdapted, and the element behind
  };
  // up_reads_gate_bridge: up 3+2 and 5+4, act 330 and 1224; expert_zero_for_all: expert 1 has gate 66, up 9,
  // act 1188; no_gamma: expert 1 counts once; last_rank_column_lost: with the adapter in column 1 of 2
  // nothing of it is left, but the down delta on base acts 192 and 640, half of 832.
  const std::vector<Row> rows = {
      {"_up_reads_gate_bridge", {330 + 12240 + 0.5 * (330 + 1224), kBase, -7}},
      {"_expert_zero_for_all", {462 + 11880 + 0.5 * (462 + 1188), kBase, -7}},
      {"_no_gamma", {462 + 8840 + 0.5 * (462 + 884), 192 + 3200, -7}},
      {"_uninitialised_base_rows", {kAdapted, -7, -7}},
      {"_writes_past_end", {kAdapted, kBase, 1}},
  };
  for (const Row& row : rows) {
    const auto* table = open_table(row.fault);
    ASSERT_NE(table, nullptr);
    Layer layer(table);
    layer.put_adapter(1, 2, 4, 1, 1, 1, 0.5);
    ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
    EXPECT_EQ(layer.forward({1, -1}), verdict_of(SINKTRAP_OK));
    EXPECT_EQ(layer.out.values(), row.out) << row.fault;
  }
}

TEST(PlainC, fault_in_the_last_rank_column_shows) {
  for (const bool faulty : {false, true}) {
    const auto* table = open_table(faulty ? "_last_rank_column_lost" : "");
    ASSERT_NE(table, nullptr);
    Layer layer(table);
    layer.put_adapter(1, 0, 0, 0, 0, 1, 0.5);
    layer.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].set(4 + 1, 2);  // row 1: the gate's second rank
    layer.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].set(8 + 1, 1);  // expert 0's gate, column R - 1
    ASSERT_EQ(layer.bind(), verdict_of(SINKTRAP_OK));
    ASSERT_EQ(layer.forward({1}), verdict_of(SINKTRAP_OK));
    const double act0 = faulty ? 64 * 3 : 66 * 3;
    EXPECT_EQ(layer.out.at(0), act0 + 6400 + 0.5 * (act0 + 640));
  }
}

TEST(PlainC, faults_outside_of_the_arithmetic_show) {
  const auto* version = open_table("_wrong_version");
  ASSERT_NE(version, nullptr);
  EXPECT_NE(version->abi_version, SINKTRAP_ABI_VERSION);
  const auto* mixed = open_table("_accept_mixed_layout");
  ASSERT_NE(mixed, nullptr);
  Shapes shapes;
  shapes.shape[0][1] = 2;
  EXPECT_EQ(judge(mixed, shapes.layout()), verdict_of(SINKTRAP_OK));
  const auto* modifies = open_table("_modifies_input");
  ASSERT_NE(modifies, nullptr);
  Layer layer(modifies);
  ASSERT_EQ(layer.forward({-1}), verdict_of(SINKTRAP_OK));
  EXPECT_NE(layer.x.at(0), 1.0);
}

TEST(PlainCDeathTest, fault_crash_in_forward_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto* table = open_table("_crash_in_forward");
  ASSERT_NE(table, nullptr);
  Layer layer(table);
  EXPECT_DEATH(layer.forward({-1}), "");
}

}  // namespace
}  // namespace sinktrap::test
