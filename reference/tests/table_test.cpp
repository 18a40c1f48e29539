// The tables: creation, options, declarations, and the operations without an instance.
#include <thread>

#include "layer_fixture.hpp"
#include "layouts.hpp"

namespace sinktrap::reference {
namespace {

using test::LayerFixture;

TEST(Table, SaysWhatItIs) {
  EXPECT_STREQ(f64_table()->name, "reference");
  EXPECT_STREQ(ordered_table()->name, "reference:ordered");
  for (const auto* t : {f64_table(), ordered_table()}) {
    EXPECT_EQ(t->abi_version, SINKTRAP_ABI_VERSION);
    EXPECT_EQ(t->struct_size, sizeof(sinktrap_implementation_table));
    EXPECT_EQ(t->capabilities & SINKTRAP_CAN_CHOOSE_SCHEDULE, 0u);
    EXPECT_EQ(t->memory.allocate, nullptr);
    EXPECT_EQ(t->device.device_type, kDLCPU);
    EXPECT_EQ(t->declaration.seams_declared, 1);
    EXPECT_EQ(t->declaration.seams, 0u);
    EXPECT_EQ(t->declaration.deterministic, 1);
    for (bool has : {t->validate != nullptr, t->create != nullptr, t->destroy != nullptr, t->bind != nullptr,
                     t->forward != nullptr, t->update != nullptr, t->load != nullptr, t->unload != nullptr,
                     t->shard != nullptr, t->expand != nullptr, t->collapse != nullptr, t->derived != nullptr,
                     t->declare != nullptr, t->last_error != nullptr})
      EXPECT_TRUE(has);
  }
  EXPECT_EQ(f64_table()->capabilities & SINKTRAP_IS_ORDERED, 0u);
  EXPECT_NE(ordered_table()->capabilities & SINKTRAP_IS_ORDERED, 0u);
  EXPECT_NE(ordered_table()->capabilities & SINKTRAP_CAN_CHOOSE_SEAMS, 0u);
}

TEST(Table, OptionsChooseSeams) {
  LayerFixture plain(ordered_table()), rounding(ordered_table(), 1, "seams=base_y+act");
  ASSERT_NE(rounding.instance, nullptr);
  sinktrap_declaration declaration{};
  EXPECT_EQ(rounding.table.declare(rounding.instance, &declaration), SINKTRAP_OK);
  EXPECT_EQ(declaration.seams, SINKTRAP_SEAM(BASE_Y) | SINKTRAP_SEAM(ACT));
  EXPECT_EQ(plain.table.declare(plain.instance, &declaration), SINKTRAP_OK);
  EXPECT_EQ(declaration.seams, 0u);
  EXPECT_FALSE(plain.served({-1, -1, -1, -1}).same_bits(rounding.served({-1, -1, -1, -1})));
  EXPECT_EQ(plain.table.declare(nullptr, &declaration), SINKTRAP_ARGUMENT);

  const std::pair<const sinktrap_implementation_table*, const char*> bad[] = {
      {ordered_table(), "seams=gamma"}, {ordered_table(), "seams"},          {ordered_table(), "schedule=3"},
      {ordered_table(), "seams="},      {ordered_table(), "seams=none&x=1"}, {f64_table(), "seams=none"}};
  for (const auto& [table, options] : bad) {
    LayerFixture f(table, 1, options);
    EXPECT_EQ(f.instance, nullptr) << options;
    EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_ARGUMENT)) << options;
    EXPECT_STRNE(table->last_error(), "") << options;
  }
  std::thread([] { EXPECT_STREQ(f64_table()->last_error(), ""); }).join();  // each thread has its own text
}

TEST(Table, CreateRefuses) {
  const LayerFixture f(f64_table());
  const DLTensor w13 = f.r.w13.view(), w2 = f.r.w2.view();
  const auto verdict_for = [&](auto damage) {
    DLTensor a = w13, b = w2;
    sinktrap_layer layer = f.description(a, b);
    damage(layer, a, b);
    sinktrap_instance* instance = nullptr;
    Verdict v{};
    EXPECT_EQ(f64_table()->create(&layer, "", &instance, &v), v.code);
    f64_table()->destroy(instance);
    return v;
  };
  const auto below_1 = [](std::int64_t found) {
    return verdict_of(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, found, 1);
  };
  const Verdict argument = verdict_of(SINKTRAP_ARGUMENT);
  EXPECT_EQ(verdict_for([](auto&, auto&, auto&) {}), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.n_shared_experts = 0, l.hidden_size = -4; }),
            below_1(0));
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.hidden_size = SINKTRAP_ANY, l.w2 = nullptr; }),
            below_1(-1));
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.intermediate_size = INT64_MIN; }), below_1(INT64_MIN));
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.struct_size = 0, l.hidden_size = 0; }), argument);
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.intermediate_size = INT64_MAX; }), argument);
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.w13_layout = 2; }), argument);
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.dtype = {kDLFloat, 64, 1}; }), argument);
  EXPECT_EQ(verdict_for([](auto& l, auto&, auto&) { l.w13 = nullptr; }), argument);
  EXPECT_EQ(verdict_for([](auto&, auto& a, auto&) { a.data = nullptr; }), argument);
  EXPECT_EQ(verdict_for([](auto&, auto& a, auto&) { a.ndim = 2; }), argument);
  EXPECT_EQ(verdict_for([](auto&, auto&, auto& b) { b.dtype = {kDLFloat, 16, 1}; }), argument);
  static std::int64_t strides[] = {30, 1, 6};
  EXPECT_EQ(verdict_for([](auto&, auto&, auto& b) { b.strides = strides; }), argument);
  Verdict v{};
  sinktrap_instance* instance = nullptr;
  EXPECT_EQ(f64_table()->create(nullptr, "", &instance, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f64_table()->create(nullptr, nullptr, nullptr, &v), SINKTRAP_ARGUMENT);
  f64_table()->destroy(nullptr);
}

TEST(Table, ValidatesManyLayouts) {
  test::Layout good = test::valid_layout(), bad = test::valid_layout();
  bad.buffers[3].shape[1] = 2;
  const sinktrap_layout layouts[] = {good.view(), bad.view()};
  Verdict verdicts[2]{};
  ASSERT_EQ(f64_table()->validate(layouts, 2, SINKTRAP_PROFILE_STRICT, verdicts), SINKTRAP_OK);
  EXPECT_EQ(verdicts[0], verdict_of(SINKTRAP_OK));
  EXPECT_EQ(verdicts[1], verdict_of(SINKTRAP_LAYOUT_MISMATCH, 3, 1, 2, 1));
  EXPECT_EQ(f64_table()->validate(nullptr, 0, SINKTRAP_PROFILE_SGLANG, nullptr), SINKTRAP_OK);
  EXPECT_EQ(f64_table()->validate(nullptr, 1, SINKTRAP_PROFILE_SGLANG, verdicts), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f64_table()->validate(layouts, -1, SINKTRAP_PROFILE_SGLANG, verdicts), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f64_table()->validate(layouts, 2, 7, verdicts), SINKTRAP_ARGUMENT);
}

TEST(Table, UnknownOperandsAreUnsupported) {
  LayerFixture f(ordered_table());
  EXPECT_TRUE(f.operand("w3").empty());
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_UNSUPPORTED));
  EXPECT_NE(std::string_view(f.table.last_error()).find("w3"), std::string_view::npos);
  EXPECT_EQ(f.table.derived(f.instance, "w1_delta", nullptr, &f.verdict), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f.table.derived(f.instance, nullptr, nullptr, &f.verdict), SINKTRAP_ARGUMENT);
}

TEST(Table, ExpandsAndShards) {
  LayerFixture f(f64_table(), 1), wide(f64_table(), 2);
  const DLTensor shared = f.r.pool[0].view(), per_expert = wide.r.pool[0].view();
  ASSERT_EQ(f.table.expand(&shared, SINKTRAP_BUFFER_GATE_UP_LORA_A, &per_expert, &f.verdict), SINKTRAP_OK);
  const Tensor before = f.r.pool[0];
  ASSERT_EQ(f.table.collapse(&per_expert, SINKTRAP_BUFFER_GATE_UP_LORA_A, &shared, &f.verdict), SINKTRAP_OK);
  EXPECT_TRUE(f.r.pool[0].same_bits(before));
  const DLTensor full[] = {f.r.pool[0].view(), f.r.pool[1].view(), f.r.pool[2].view(), f.r.pool[3].view()};
  LayerFixture::Pool copy = f.other_pool();
  const DLTensor whole[] = {copy[0].view(), copy[1].view(), copy[2].view(), copy[3].view()};
  ASSERT_EQ(f.table.shard(full, 0, 1, whole, &f.verdict), SINKTRAP_OK);
  for (std::size_t b = 0; b < copy.size(); ++b) EXPECT_TRUE(copy[b].same_bits(f.r.pool[b]));
  EXPECT_EQ(f.table.shard(full, 0, 2, whole, &f.verdict), SINKTRAP_INDIVISIBLE);
}

}  // namespace
}  // namespace sinktrap::reference
