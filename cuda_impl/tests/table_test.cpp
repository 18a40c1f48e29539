// The table itself: options, declarations, what create refuses, memory functions, and the GPU's table without
// a GPU.
#include <cstring>

#include "cuda_impl/tests/fixture.hpp"

namespace sinktrap::cuda_impl {
namespace {

struct LayerArguments {
  HostTensor w13{Element::f16, {2, 6, 4}}, w2{Element::f16, {2, 4, 3}};
  DLTensor w13_view = w13.view(), w2_view = w2.view();
  sinktrap_layer layer{
      sizeof(sinktrap_layer), SINKTRAP_W13_INTERLEAVED, 2, 4, 3, {kDLFloat, 16, 1}, &w13_view, &w2_view};
};

Verdict create(const sinktrap_layer* layer, const char* options = "") {
  const auto& table = *simt_ordered_table();
  sinktrap_instance* instance = nullptr;
  Verdict v{};
  EXPECT_EQ(table.create(layer, options, &instance, &v), v.code);
  EXPECT_EQ(instance != nullptr, v.code == SINKTRAP_OK);
  table.destroy(instance);
  return v;
}

TEST(Table, DescribesItself) {
  const auto& table = *simt_ordered_table();
  EXPECT_EQ(table.abi_version, SINKTRAP_ABI_VERSION);
  EXPECT_EQ(table.struct_size, sizeof table);
  EXPECT_STREQ(table.name, "simt:ordered");
  EXPECT_EQ(table.capabilities, (std::uint64_t{1} << 16) - 1) << "everything that sinktrap.h lists";
  EXPECT_EQ(table.declaration.seams_declared, 1);
  EXPECT_EQ(table.declaration.seams, 0u);
  EXPECT_EQ(table.declaration.deterministic, 1);
}

TEST(Table, OptionsChooseSeams) {
  const struct {
    const char* options;
    std::uint32_t seams;
  } rows[] = {{"", 0},
              {"seams=none", 0},
              {"seams=all", SINKTRAP_ALL_SEAMS},
              {"schedule=18446744073709551615", 0},
              {"seams=y+act&schedule=0", SINKTRAP_SEAM(Y) | SINKTRAP_SEAM(ACT)}};
  for (const auto& row : rows) {
    Layer layer(Element::f32, 1, 1, 1, row.options);
    sinktrap_declaration d{};
    ASSERT_EQ(layer.table.declare(layer.instance, &d), SINKTRAP_OK);
    EXPECT_EQ(d.seams, row.seams) << row.options;
    EXPECT_EQ(d.seams_declared, 1);
  }
}

TEST(Table, RefusesUnknownOptions) {
  LayerArguments a;
  for (const char* options :
       {"seam=y", "seams=yy", "seams=", "seams", "schedule=", "schedule=-1", "schedule=1x",
        "schedule=18446744073709551616", "seams=y&", "&", "seams=y&seams=y", "schedule=1&schedule=1"}) {
    EXPECT_EQ(create(&a.layer, options), verdict_of(SINKTRAP_ARGUMENT)) << options;
    EXPECT_NE(std::strstr(simt_ordered_table()->last_error(), "options"), nullptr) << options;
  }
  EXPECT_EQ(create(&a.layer, nullptr), verdict_of(SINKTRAP_ARGUMENT));
}

TEST(Table, CreateRefusesLayersThatCannotBe) {
  LayerArguments a;
  EXPECT_EQ(create(&a.layer).code, SINKTRAP_OK);
  EXPECT_EQ(create(nullptr), verdict_of(SINKTRAP_ARGUMENT));
  const auto changed = [](auto change) {
    LayerArguments b;
    change(b);
    return create(&b.layer);
  };
  EXPECT_EQ(changed([](auto& b) { b.layer.struct_size = 8; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.layer.n_shared_experts = 0; }), verdict_of(SINKTRAP_LAYER, -1, -1, 0, 1));
  EXPECT_EQ(changed([](auto& b) { b.layer.hidden_size = -1; }), verdict_of(SINKTRAP_LAYER, -1, -1, -1, 1));
  EXPECT_EQ(changed([](auto& b) { b.layer.intermediate_size = INT64_MIN; }),
            verdict_of(SINKTRAP_LAYER, -1, -1, INT64_MIN, 1));
  EXPECT_EQ(changed([](auto& b) { b.layer.intermediate_size = INT64_MAX; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.layer.w13_layout = 2; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.layer.dtype = {kDLInt, 16, 1}; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.layer.w13 = nullptr; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.w2.shape[1] = 5; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.w2_view.dtype.bits = 32; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.w2_view.data = nullptr; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.w2_view.byte_offset = 1; }), verdict_of(SINKTRAP_ARGUMENT));
  EXPECT_EQ(changed([](auto& b) { b.w2_view.device.device_type = kDLCUDA; }), verdict_of(SINKTRAP_ARGUMENT));
  std::int64_t strides[] = {24, 1, 6};
  EXPECT_EQ(changed([&](auto& b) { b.w13_view.strides = strides; }), verdict_of(SINKTRAP_ARGUMENT));
}

TEST(Table, MemoryFunctionsAndTheirFailures) {
  const auto& table = *simt_ordered_table();
  void* p = table.memory.allocate(8);
  ASSERT_NE(p, nullptr);
  const double value = 1.5;
  double copy = 0;
  EXPECT_EQ(table.memory.write(p, &value, 8), SINKTRAP_OK);
  EXPECT_EQ(table.memory.read(&copy, p, 8), SINKTRAP_OK);
  EXPECT_EQ(copy, 1.5);
  table.memory.release(p);
  EXPECT_EQ(table.memory.allocate(UINT64_MAX), nullptr);
  EXPECT_NE(std::strstr(table.last_error(), "no memory"), nullptr) << table.last_error();
}

TEST(Table, CallsWithoutAnInstanceAreArguments) {
  const auto& table = *simt_ordered_table();
  Verdict v{};
  EXPECT_EQ(table.bind(nullptr, nullptr, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(table.forward(nullptr, nullptr, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(table.declare(nullptr, nullptr), SINKTRAP_ARGUMENT);
  table.destroy(nullptr);
}

// With nvcc but without a device every call answers `internal` and names the CUDA call.
TEST(Table, TheGpuTableSurvivesWithoutADevice) {
  const sinktrap_implementation_table* table = cuda_table(Kernel::ordered);
  const char* why = nullptr;
  const bool present = cuda_device_present(&why);
  if (table == nullptr) {
    EXPECT_FALSE(present);
    EXPECT_STREQ(why, "built without nvcc");
    return;
  }
  EXPECT_STREQ(table->name, "cuda:ordered");
  EXPECT_EQ(table->device.device_type, kDLCUDA);
  EXPECT_EQ(table->capabilities & SINKTRAP_CAN_CHOOSE_SCHEDULE, 0u);
  if (present) return;
  ASSERT_NE(why, nullptr);
  EXPECT_NE(std::strstr(why, "cuda"), nullptr) << why;
  EXPECT_EQ(table->memory.allocate(16), nullptr);
  EXPECT_NE(std::strstr(table->last_error(), "cudaMalloc"), nullptr) << table->last_error();
  sinktrap_layout layout{};
  Verdict v{};
  EXPECT_EQ(table->validate(&layout, 1, SINKTRAP_PROFILE_STRICT, &v), SINKTRAP_INTERNAL);
  LayerArguments a;
  a.w13_view.device = a.w2_view.device = {kDLCUDA, 0};
  sinktrap_instance* instance = nullptr;
  EXPECT_EQ(table->create(&a.layer, "seams=y", &instance, &v), SINKTRAP_INTERNAL);
  EXPECT_EQ(instance, nullptr);
  EXPECT_EQ(table->create(&a.layer, "schedule=1", &instance, &v), SINKTRAP_ARGUMENT);
}

}  // namespace
}  // namespace sinktrap::cuda_impl
