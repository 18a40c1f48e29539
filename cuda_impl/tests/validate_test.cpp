// The validation kernel against hand-written layouts, at least one for every code of CONTRACT.md section 2.
#include <gtest/gtest.h>

#include <functional>

#include "contract/verdict.hpp"
#include "cuda_impl/table.hpp"

namespace sinktrap::cuda_impl {
namespace {

constexpr std::int64_t kMax = INT64_MAX, kMin = INT64_MIN;
constexpr int kGa = SINKTRAP_BUFFER_GATE_UP_LORA_A, kGb = SINKTRAP_BUFFER_GATE_UP_LORA_B,
              kDa = SINKTRAP_BUFFER_DOWN_LORA_A, kDb = SINKTRAP_BUFFER_DOWN_LORA_B;

// A valid shared-outer layout with all extents different: n 2, S 3, R 4, H 7, F 5. bf16, made-up addresses.
struct Sample {
  std::int64_t shape[4][4] = {{3, 1, 8, 7}, {3, 2, 10, 4}, {3, 2, 4, 5}, {3, 1, 7, 4}};
  std::int64_t strides[4][4] = {};
  sinktrap_layout layout{};

  Sample() {
    layout.n_shared_experts = 2;
    layout.hidden_size = layout.intermediate_size = SINKTRAP_ANY;
    for (int b = 0; b < 4; ++b) {
      DLTensor& t = layout.buffers[b];
      t.data = reinterpret_cast<void*>(std::uintptr_t{0x10000} * static_cast<unsigned>(b + 1));
      t.device = {kDLCPU, 0};
      t.ndim = 4;
      t.dtype = {kDLBfloat, 16, 1};
      t.shape = shape[b];
      std::int64_t stride = 1;
      for (int axis = 3; axis >= 0; --axis) {
        strides[b][axis] = stride;
        stride *= shape[b][axis];
      }
    }
  }
  void with_strides(int b) { layout.buffers[b].strides = strides[b]; }
  DLTensor& operator[](int b) { return layout.buffers[b]; }
};

Verdict judge(const Sample& s, std::int32_t profile) {
  Verdict v{};
  EXPECT_EQ(simt_ordered_table()->validate(&s.layout, 1, profile, &v), SINKTRAP_OK);
  return v;
}

struct Row {
  const char* what;
  std::function<void(Sample&)> change;
  Verdict sglang, strict;
};

const Verdict kFine = verdict_of(SINKTRAP_OK);
Verdict of(Code code, int buffer, int axis, std::int64_t found, std::int64_t expected) {
  return verdict_of(code, buffer, axis, found, expected);
}
Row both(const char* what, std::function<void(Sample&)> change, Verdict v) {
  return {what, std::move(change), v, v};
}
Row strict(const char* what, std::function<void(Sample&)> change, Verdict v) {
  return {what, std::move(change), kFine, v};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      both(
          "valid", [](Sample&) {}, kFine),
      both(
          "valid, per-expert", [](Sample& s) { s.shape[0][1] = s.shape[3][1] = 2; }, kFine),
      both(
          "layer: n", [](Sample& s) { s.layout.n_shared_experts = 0; }, of(SINKTRAP_LAYER, -1, -1, 0, 1)),
      both(
          "layer: H", [](Sample& s) { s.layout.hidden_size = -2; }, of(SINKTRAP_LAYER, -1, -1, -2, 1)),
      both(
          "layer: F", [](Sample& s) { s.layout.intermediate_size = 0; }, of(SINKTRAP_LAYER, -1, -1, 0, 1)),
      both(
          "not 4-D", [](Sample& s) { s[kDa].ndim = 3; }, of(SINKTRAP_NOT_4D, kDa, -1, 3, 4)),
      both(
          "negative number of axes", [](Sample& s) { s[kGa].ndim = -7; },
          of(SINKTRAP_NOT_4D, kGa, -1, -7, 4)),
      both(
          "huge number of axes", [](Sample& s) { s[kDb].ndim = INT32_MAX; },
          of(SINKTRAP_NOT_4D, kDb, -1, INT32_MAX, 4)),
      both(
          "no shape", [](Sample& s) { s[kGb].shape = nullptr; }, of(SINKTRAP_NOT_4D, kGb, -1, 0, 4)),
      both(
          "outer A", [](Sample& s) { s.shape[0][1] = 3; }, of(SINKTRAP_OUTER_DIM, kGa, 1, 3, 2)),
      both(
          "outer B", [](Sample& s) { s.shape[3][1] = 0; }, of(SINKTRAP_OUTER_DIM, kDb, 1, 0, 2)),
      both(
          "mixed", [](Sample& s) { s.shape[3][1] = 2; }, of(SINKTRAP_LAYOUT_MISMATCH, kDb, 1, 2, 1)),
      both(
          "mixed the other way", [](Sample& s) { s.shape[0][1] = 2; },
          of(SINKTRAP_LAYOUT_MISMATCH, kDb, 1, 1, 2)),
      both(
          "inner B of a fully shared adapter", [](Sample& s) { s.shape[1][1] = 1; },
          of(SINKTRAP_EXPERT_COUNT, kGb, 1, 1, 2)),
      both(
          "inner A", [](Sample& s) { s.shape[2][1] = 3; }, of(SINKTRAP_EXPERT_COUNT, kDa, 1, 3, 2)),
      both(
          "2R", [](Sample& s) { s.shape[0][2] = 4; }, of(SINKTRAP_RANK_MISMATCH, kGa, 2, 4, 8)),
      both(
          "2R wraps", [](Sample& s) { s.shape[1][3] = kMax / 2 + 1, s.shape[0][2] = kMin; },
          of(SINKTRAP_RANK_MISMATCH, kGa, 2, kMin, kMax)),
      both(
          "2R wraps below", [](Sample& s) { s.shape[1][3] = kMin / 2 - 1, s.shape[0][2] = kMax - 1; },
          of(SINKTRAP_RANK_MISMATCH, kGa, 2, kMax - 1, kMin)),
      both(
          "R of down A", [](Sample& s) { s.shape[2][2] = 8; }, of(SINKTRAP_RANK_MISMATCH, kDa, 2, 8, 4)),
      both(
          "R of down B", [](Sample& s) { s.shape[3][3] = 5; }, of(SINKTRAP_RANK_MISMATCH, kDb, 3, 5, 4)),
      strict(
          "extent", [](Sample& s) { s.shape[2][3] = 0; }, of(SINKTRAP_EXTENT, kDa, 3, 0, 1)),
      strict(
          "negative rank",
          [](Sample& s) { s.shape[0][2] = -2, s.shape[1][3] = s.shape[2][2] = s.shape[3][3] = -1; },
          of(SINKTRAP_EXTENT, kGa, 2, -2, 1)),
      strict(
          "slots", [](Sample& s) { s.shape[2][0] = 2; }, of(SINKTRAP_SLOT_COUNT, kDa, 0, 2, 3)),
      strict(
          "hidden", [](Sample& s) { s.shape[3][2] = 6; }, of(SINKTRAP_HIDDEN_SIZE, kDb, 2, 6, 7)),
      strict(
          "hidden of the layer", [](Sample& s) { s.layout.hidden_size = 9; },
          of(SINKTRAP_HIDDEN_SIZE, kGa, 3, 7, 9)),
      strict(
          "intermediate, odd", [](Sample& s) { s.shape[1][2] = 11; },
          of(SINKTRAP_INTERMEDIATE_SIZE, kGb, 2, 11, 10)),
      strict(
          "intermediate, not twice", [](Sample& s) { s.shape[1][2] = 12; },
          of(SINKTRAP_INTERMEDIATE_SIZE, kGb, 2, 12, 10)),
      strict(
          "intermediate would wrap", [](Sample& s) { s.shape[2][3] = kMax / 2 + 2, s.shape[1][2] = kMax; },
          of(SINKTRAP_INTERMEDIATE_SIZE, kGb, 2, kMax, kMax)),
      strict(
          "intermediate of the layer", [](Sample& s) { s.layout.intermediate_size = 6; },
          of(SINKTRAP_INTERMEDIATE_SIZE, kGb, 2, 10, 12)),
      strict(
          "intermediate of the layer would wrap", [](Sample& s) { s.layout.intermediate_size = kMax; },
          of(SINKTRAP_INTERMEDIATE_SIZE, kGb, 2, 10, kMax)),
      strict(
          "size of A", [](Sample& s) { s.shape[0][3] = s.shape[3][2] = kMax / 8; },
          of(SINKTRAP_SIZE_OVERFLOW, kGa, 3, kMax / 8, kMax / 48)),
      strict(
          "size of a type of 2 MiB",
          [](Sample& s) {
            s[kGb].dtype = {kDLFloat, 255, 65535}, s.shape[1][0] = 3;
          },
          of(SINKTRAP_DTYPE, kGb, -1, (std::int64_t{2} << 24) + (255 << 16) + 65535, 0)),
      strict(
          "unsupported type",
          [](Sample& s) {
            s[kDa].dtype = {kDLFloat, 64, 1};
          },
          of(SINKTRAP_DTYPE, kDa, -1, (2 << 24) + (64 << 16) + 1, 0)),
      strict(
          "a type of no bits",
          [](Sample& s) {
            s[kDb].dtype = {kDLInt, 0, 0};
          },
          of(SINKTRAP_DTYPE, kDb, -1, 0, 0)),
      strict(
          "types differ",
          [](Sample& s) {
            s[kDb].dtype = {kDLFloat, 16, 1};
          },
          of(SINKTRAP_DTYPE, kDb, -1, (2 << 24) + (16 << 16) + 1, (4 << 24) + (16 << 16) + 1)),
      strict(
          "devices differ",
          [](Sample& s) {
            s[kGb].device = {kDLCUDA, 3};
          },
          of(SINKTRAP_DEVICE, kGb, -1, (std::int64_t{2} << 32) + 3, std::int64_t{1} << 32)),
      strict(
          "device id negative",
          [](Sample& s) {
            s[kGb].device = {kDLCPU, -1};
          },
          of(SINKTRAP_DEVICE, kGb, -1, (std::int64_t{1} << 32) - 1, std::int64_t{1} << 32)),
      strict(
          "stride", [](Sample& s) { s.with_strides(kDa), s.strides[2][1] = 21; },
          of(SINKTRAP_STRIDE, kDa, 1, 21, 20)),
      strict(
          "stride of an axis of extent 1", [](Sample& s) { s.with_strides(kGa), s.strides[0][1] = -99; },
          kFine),
      strict(
          "null", [](Sample& s) { s[kGb].data = nullptr; }, of(SINKTRAP_DATA, kGb, -1, 0, 2)),
      strict(
          "null after the offset", [](Sample& s) { s[kGb].byte_offset = ~std::uint64_t{0x20000} + 1; },
          of(SINKTRAP_DATA, kGb, -1, 0, 2)),
      strict(
          "misaligned", [](Sample& s) { s[kDb].byte_offset = 5; }, of(SINKTRAP_DATA, kDb, -1, 1, 0)),
      strict(
          "misaligned before null", [](Sample& s) { s[kGb].byte_offset = 1, s[kDa].data = nullptr; },
          of(SINKTRAP_DATA, kGb, -1, 1, 0)),
      strict(
          "no memory behind it",
          [](Sample& s) {
            s.layout.flags = SINKTRAP_SHAPES_ONLY, s[kGb].data = nullptr, s[kDb].data = s[kDa].data;
          },
          kFine),
      // gate_up_lora_a: 3*1*8*7 elements, 336 bytes from 0x10000.
      strict(
          "aliasing by 6 bytes", [](Sample& s) { s[kDa].data = reinterpret_cast<void*>(0x10000 + 330); },
          of(SINKTRAP_ALIASING, kDa, -1, 6, 0)),
      strict(
          "touching", [](Sample& s) { s[kDa].data = reinterpret_cast<void*>(0x10000 + 336); }, kFine),
      // down_lora_b: 3*1*7*4 elements, 168 bytes, at the end of the address space.
      strict(
          "the last address", [](Sample& s) { s[kDb].data = reinterpret_cast<void*>(~std::uintptr_t{1}); },
          kFine),
      strict(
          "inside", [](Sample& s) { s[kDb].data = reinterpret_cast<void*>(0x10000 + 10); },
          of(SINKTRAP_ALIASING, kDb, -1, 168, 0)),
  };
  return table;
}

TEST(Validate, HandWrittenLayouts) {
  for (const Row& row : rows()) {
    Sample s;
    row.change(s);
    EXPECT_EQ(judge(s, SINKTRAP_PROFILE_SGLANG), row.sglang)
        << row.what << ": " << verdict_to_text(judge(s, SINKTRAP_PROFILE_SGLANG));
    EXPECT_EQ(judge(s, SINKTRAP_PROFILE_STRICT), row.strict)
        << row.what << ": " << verdict_to_text(judge(s, SINKTRAP_PROFILE_STRICT));
  }
}

TEST(Validate, TheTableHasEveryCode) {
  for (int code = SINKTRAP_OK; code <= SINKTRAP_ALIASING; ++code) {
    bool found = false;
    for (const Row& row : rows()) found = found || row.strict.code == code;
    EXPECT_TRUE(found) << code_name(code);
  }
}

// A batch of several chunks keeps order.
TEST(Validate, ABatchOfThousands) {
  std::vector<Sample> samples(rows().size());
  for (std::size_t i = 0; i < samples.size(); ++i) rows()[i].change(samples[i]);
  std::vector<sinktrap_layout> layouts(5000);
  for (std::size_t i = 0; i < layouts.size(); ++i) layouts[i] = samples[i % samples.size()].layout;
  std::vector<Verdict> verdicts(layouts.size());
  ASSERT_EQ(simt_ordered_table()->validate(layouts.data(), 5000, SINKTRAP_PROFILE_STRICT, verdicts.data()),
            SINKTRAP_OK);
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    ASSERT_EQ(verdicts[i], rows()[i % samples.size()].strict) << i;
}

TEST(Validate, RefusesBadCalls) {
  Sample s;
  Verdict v{};
  const auto& table = *simt_ordered_table();
  EXPECT_EQ(table.validate(&s.layout, 1, 2, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(table.validate(&s.layout, -1, 0, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(table.validate(nullptr, 1, 0, &v), SINKTRAP_ARGUMENT);
  EXPECT_EQ(table.validate(nullptr, 0, 0, nullptr), SINKTRAP_OK);
}

}  // namespace
}  // namespace sinktrap::cuda_impl
