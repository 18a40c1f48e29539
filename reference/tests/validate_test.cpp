// Every code and every field of CONTRACT.md section 2, one damaged layout a row.
#include "reference/validate.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "layouts.hpp"

namespace sinktrap::reference {
namespace {

using test::Layout;
using test::valid_layout;

constexpr std::int64_t kMax = INT64_MAX, kMin = INT64_MIN;
constexpr int A = 0, B = 1, DA = 2, DB = 3;  // in the order of sinktrap_buffer

struct Row {
  const char* what;
  std::function<void(Layout&)> damage;
  Verdict strict;
  Code sglang;
};

Verdict v(Code code, int buffer, int axis, std::int64_t found, std::int64_t expected) {
  return verdict_of(code, buffer, axis, found, expected);
}

void with_memory(Layout& l) {
  l.flags = 0;
  for (std::size_t b = 0; b < 4; ++b) l.buffers[b].address = 0x10000 * (b + 1);
}

// Bytes of valid_layout(): A 5*1*8*7*2 = 560, B 5*2*6*4*2 = 480, DA 5*2*4*3*2 = 240, DB 5*1*7*4*2 = 280.
const Row kRows[] = {
    {"valid", [](Layout&) {}, verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"layer's own sizes", [](Layout& l) { l.H = 7, l.F = 3; }, verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"n = 0", [](Layout& l) { l.n = 0, l.H = 0; }, v(SINKTRAP_LAYER, -1, -1, 0, 1), SINKTRAP_LAYER},
    {"H = 0", [](Layout& l) { l.H = 0, l.F = -7; }, v(SINKTRAP_LAYER, -1, -1, 0, 1), SINKTRAP_LAYER},
    {"H = -2", [](Layout& l) { l.H = -2; }, v(SINKTRAP_LAYER, -1, -1, -2, 1), SINKTRAP_LAYER},
    {"F = -7", [](Layout& l) { l.F = -7; }, v(SINKTRAP_LAYER, -1, -1, -7, 1), SINKTRAP_LAYER},
    {"3-D", [](Layout& l) { l.buffers[B].shape.pop_back(); }, v(SINKTRAP_NOT_4D, B, -1, 3, 4), SINKTRAP_NOT_4D},
    {"5-D", [](Layout& l) { l.buffers[DB].shape.push_back(1); }, v(SINKTRAP_NOT_4D, DB, -1, 5, 4),
     SINKTRAP_NOT_4D},
    {"0-D", [](Layout& l) { l.buffers[A].shape.clear(); }, v(SINKTRAP_NOT_4D, A, -1, 0, 4), SINKTRAP_NOT_4D},
    {"negative number of axes", [](Layout& l) { l.buffers[DA].shape.clear(), l.buffers[DA].ndim = -3; },
     v(SINKTRAP_NOT_4D, DA, -1, -3, 4), SINKTRAP_NOT_4D},
    {"four axes without extents", [](Layout& l) { l.buffers[DA].shape.clear(), l.buffers[DA].ndim = 4; },
     v(SINKTRAP_NOT_4D, DA, -1, 0, 4), SINKTRAP_NOT_4D},
    {"outer of A", [](Layout& l) { l.buffers[A].shape[1] = 3, l.buffers[DB].shape[1] = 0; },
     v(SINKTRAP_OUTER_DIM, A, 1, 3, 2), SINKTRAP_OUTER_DIM},
    {"outer of down B", [](Layout& l) { l.buffers[DB].shape[1] = -1; }, v(SINKTRAP_OUTER_DIM, DB, 1, -1, 2),
     SINKTRAP_OUTER_DIM},
    {"mixed", [](Layout& l) { l.buffers[DB].shape[1] = 2; }, v(SINKTRAP_LAYOUT_MISMATCH, DB, 1, 2, 1),
     SINKTRAP_LAYOUT_MISMATCH},
    {"mixed, the other way", [](Layout& l) { l.buffers[A].shape[1] = 2; },
     v(SINKTRAP_LAYOUT_MISMATCH, DB, 1, 1, 2), SINKTRAP_LAYOUT_MISMATCH},
    {"experts of B", [](Layout& l) { l.buffers[B].shape[1] = 1, l.buffers[DA].shape[1] = 3; },
     v(SINKTRAP_EXPERT_COUNT, B, 1, 1, 2), SINKTRAP_EXPERT_COUNT},
    {"experts of down A", [](Layout& l) { l.buffers[DA].shape[1] = 3; }, v(SINKTRAP_EXPERT_COUNT, DA, 1, 3, 2),
     SINKTRAP_EXPERT_COUNT},
    {"2R", [](Layout& l) { l.buffers[A].shape[2] = 4; }, v(SINKTRAP_RANK_MISMATCH, A, 2, 4, 8),
     SINKTRAP_RANK_MISMATCH},
    {"R of down A", [](Layout& l) { l.buffers[DA].shape[2] = 5; }, v(SINKTRAP_RANK_MISMATCH, DA, 2, 5, 4),
     SINKTRAP_RANK_MISMATCH},
    {"R of down B", [](Layout& l) { l.buffers[DB].shape[3] = 8; }, v(SINKTRAP_RANK_MISMATCH, DB, 3, 8, 4),
     SINKTRAP_RANK_MISMATCH},
    {"2R that wraps to 0",
     [](Layout& l) { l.buffers[B].shape[3] = l.buffers[DA].shape[2] = l.buffers[DB].shape[3] = kMin; l.buffers[A].shape[2] = 0; },
     v(SINKTRAP_RANK_MISMATCH, A, 2, 0, kMin), SINKTRAP_RANK_MISMATCH},
    {"2R that is given as the nearest", [](Layout& l) { l.buffers[B].shape[3] = kMax; l.buffers[A].shape[2] = kMax; },
     v(SINKTRAP_RANK_MISMATCH, A, 2, kMax, kMax), SINKTRAP_RANK_MISMATCH},
    {"extents of 0", [](Layout& l) { l.buffers[B].shape[0] = 0, l.buffers[DA].shape[3] = 0; },
     v(SINKTRAP_EXTENT, B, 0, 0, 1), SINKTRAP_OK},
    {"R = 0", [](Layout& l) { l = valid_layout(2, 1, 5, 0); }, v(SINKTRAP_EXTENT, A, 2, 0, 1), SINKTRAP_OK},
    {"negative H", [](Layout& l) { l.buffers[A].shape[3] = -7; }, v(SINKTRAP_EXTENT, A, 3, -7, 1), SINKTRAP_OK},
    {"slots", [](Layout& l) { l.buffers[DA].shape[0] = 6; }, v(SINKTRAP_SLOT_COUNT, DA, 0, 6, 5), SINKTRAP_OK},
    {"hidden", [](Layout& l) { l.buffers[DB].shape[2] = 8, l.H = 9; }, v(SINKTRAP_HIDDEN_SIZE, DB, 2, 8, 7),
     SINKTRAP_OK},
    {"not the layer's H", [](Layout& l) { l.H = 9; }, v(SINKTRAP_HIDDEN_SIZE, A, 3, 7, 9), SINKTRAP_OK},
    {"2F", [](Layout& l) { l.buffers[B].shape[2] = 8; }, v(SINKTRAP_INTERMEDIATE_SIZE, B, 2, 8, 6), SINKTRAP_OK},
    {"odd 2F", [](Layout& l) { l.buffers[B].shape[2] = 7, l.F = 9; }, v(SINKTRAP_INTERMEDIATE_SIZE, B, 2, 7, 6),
     SINKTRAP_OK},
    {"2F that wraps", [](Layout& l) { l.buffers[DA].shape[3] = kMax, l.buffers[B].shape[2] = kMax; },
     v(SINKTRAP_INTERMEDIATE_SIZE, B, 2, kMax, kMax), SINKTRAP_OK},
    {"not the layer's F", [](Layout& l) { l.F = 4; }, v(SINKTRAP_INTERMEDIATE_SIZE, B, 2, 6, 8), SINKTRAP_OK},
    {"not the layer's F, which wraps", [](Layout& l) { l.F = kMax; },
     v(SINKTRAP_INTERMEDIATE_SIZE, B, 2, 6, kMax), SINKTRAP_OK},
    // 2 bytes * 5 slots * 1 * 8 = 80 bytes for each hidden coordinate of A.
    {"bytes", [](Layout& l) { l.buffers[A].shape[3] = l.buffers[DB].shape[2] = kMax / 80 + 1; },
     v(SINKTRAP_SIZE_OVERFLOW, A, 3, kMax / 80 + 1, kMax / 80), SINKTRAP_OK},
    {"bytes of an early axis", [](Layout& l) { for (auto& b : l.buffers) b.shape[0] = kMax; },
     v(SINKTRAP_SIZE_OVERFLOW, A, 0, kMax, kMax / 2), SINKTRAP_OK},
    {"bytes of a later buffer", [](Layout& l) { l.buffers[B].shape[2] = kMax / 2 - 1; l.buffers[DA].shape[3] = kMax / 4; },
     v(SINKTRAP_SIZE_OVERFLOW, B, 2, kMax / 2 - 1, kMax / 20), SINKTRAP_OK},
    {"f64", [](Layout& l) { l.buffers[B].dtype = {kDLFloat, 64, 1}; },
     v(SINKTRAP_DTYPE, B, -1, 2 * 16777216 + 64 * 65536 + 1, 0), SINKTRAP_OK},
    {"two lanes", [](Layout& l) { l.buffers[DB].dtype.lanes = 2, l.buffers[B].dtype = {kDLFloat, 16, 1}; },
     v(SINKTRAP_DTYPE, DB, -1, 4 * 16777216 + 16 * 65536 + 2, 0), SINKTRAP_OK},
    {"no bits", [](Layout& l) { for (auto& b : l.buffers) b.dtype.bits = 0, b.shape[0] = kMax; },
     v(SINKTRAP_DTYPE, A, -1, 4 * 16777216 + 1, 0), SINKTRAP_OK},
    {"mixed types", [](Layout& l) { l.buffers[DA].dtype = {kDLFloat, 16, 1}; },
     v(SINKTRAP_DTYPE, DA, -1, 2 * 16777216 + 16 * 65536 + 1, 4 * 16777216 + 16 * 65536 + 1), SINKTRAP_OK},
    {"devices", [](Layout& l) { l.buffers[DB].device = {kDLCUDA, 3}; },
     v(SINKTRAP_DEVICE, DB, -1, (std::int64_t{2} << 32) + 3, std::int64_t{1} << 32), SINKTRAP_OK},
    {"negative device ids", [](Layout& l) { l.buffers[B].device.device_id = -1; },
     v(SINKTRAP_DEVICE, B, -1, (std::int64_t{1} << 32) - 1, std::int64_t{1} << 32), SINKTRAP_OK},
    {"contiguous strides, said aloud", [](Layout& l) { l.buffers[A].strides = {56, 1234, 7, 1}; },
     verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"transposed", [](Layout& l) { l.buffers[B].strides = {48, 24, 1, 6}; }, v(SINKTRAP_STRIDE, B, 2, 1, 4),
     SINKTRAP_OK},
    {"padded rows", [](Layout& l) { l.buffers[DB].strides = {35, 0, 5, 1}; }, v(SINKTRAP_STRIDE, DB, 0, 35, 28),
     SINKTRAP_OK},
    {"last stride", [](Layout& l) { l.buffers[DB].strides = {28, 0, 4, 2}; }, v(SINKTRAP_STRIDE, DB, 3, 2, 1),
     SINKTRAP_OK},
    {"extreme strides of axes of 1", [](Layout& l) { l.buffers[A].strides = {56, kMin, 7, 1}; },
     verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"memory", with_memory, verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"null", [](Layout& l) { with_memory(l), l.buffers[DA].address = 0; }, v(SINKTRAP_DATA, DA, -1, 0, 2),
     SINKTRAP_OK},
    {"null plus an offset is an address", [](Layout& l) { with_memory(l); l.buffers[DA].address = 0; l.buffers[DA].byte_offset = 64; },
     verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"misaligned by the offset", [](Layout& l) { with_memory(l); l.buffers[B].byte_offset = 1; l.buffers[DA].address = 0; },
     v(SINKTRAP_DATA, B, -1, 1, 0), SINKTRAP_OK},
    {"misaligned f32", [](Layout& l) {
       with_memory(l);
       for (auto& b : l.buffers) b.dtype = {kDLFloat, 32, 1};
       l.buffers[DB].address += 3;
     }, v(SINKTRAP_DATA, DB, -1, 3, 0), SINKTRAP_OK},
    {"the same buffer twice", [](Layout& l) { with_memory(l), l.buffers[B].address = l.buffers[A].address; },
     v(SINKTRAP_ALIASING, B, -1, 480, 0), SINKTRAP_OK},
    {"neighbours", [](Layout& l) { with_memory(l), l.buffers[B].address = l.buffers[A].address + 560; },
     verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"last element", [](Layout& l) { with_memory(l), l.buffers[DB].address = l.buffers[A].address + 558; },
     v(SINKTRAP_ALIASING, DB, -1, 2, 0), SINKTRAP_OK},
    {"starts before", [](Layout& l) { with_memory(l), l.buffers[DA].address = l.buffers[A].address - 100; },
     v(SINKTRAP_ALIASING, DA, -1, 140, 0), SINKTRAP_OK},
    {"inside", [](Layout& l) { with_memory(l), l.buffers[DB].address = l.buffers[A].address + 4; },
     v(SINKTRAP_ALIASING, DB, -1, 280, 0), SINKTRAP_OK},
    {"the end of memory", [](Layout& l) { with_memory(l), l.buffers[DB].address = ~std::uint64_t{0} - 1; },
     verdict_of(SINKTRAP_OK), SINKTRAP_OK},
    {"shapes only leaves memory out", [](Layout& l) { l.buffers[B].byte_offset = 1; }, verdict_of(SINKTRAP_OK),
     SINKTRAP_OK},
};

TEST(Validate, GivesEveryField) {
  for (const Row& row : kRows) {
    Layout l = valid_layout();
    row.damage(l);
    const Verdict strict = validate(l.view(), SINKTRAP_PROFILE_STRICT);
    EXPECT_EQ(strict, row.strict) << row.what << ": " << verdict_to_text(strict);
    const Verdict sglang = validate(l.view(), SINKTRAP_PROFILE_SGLANG);
    const Verdict expected = row.sglang == SINKTRAP_OK ? verdict_of(SINKTRAP_OK) : row.strict;
    EXPECT_EQ(sglang, expected) << row.what << ": " << verdict_to_text(sglang);
  }
}

TEST(Validate, TheFirstFailureWins) {
  // Damages in the order of the contract, undone one after the other: each has to show in turn.
  const std::vector<std::pair<std::function<void(Layout&)>, Code>> damages = {
      {[](Layout& l) { l.F = 0; }, SINKTRAP_LAYER},
      {[](Layout& l) { l.buffers[A].ndim = 3; }, SINKTRAP_NOT_4D},
      {[](Layout& l) { l.buffers[A].shape[1] = 9; }, SINKTRAP_OUTER_DIM},
      {[](Layout& l) { l.buffers[DB].shape[1] = 2; }, SINKTRAP_LAYOUT_MISMATCH},
      {[](Layout& l) { l.buffers[DA].shape[1] = 9; }, SINKTRAP_EXPERT_COUNT},
      {[](Layout& l) { l.buffers[A].shape[2] = 9; }, SINKTRAP_RANK_MISMATCH},
      {[](Layout& l) { l.buffers[DB].shape[0] = 0; }, SINKTRAP_EXTENT},
      {[](Layout& l) { l.buffers[B].shape[0] = 9; }, SINKTRAP_SLOT_COUNT},
      {[](Layout& l) { l.H = 9; }, SINKTRAP_HIDDEN_SIZE},
      {[](Layout& l) { l.F = 9; }, SINKTRAP_INTERMEDIATE_SIZE},
      {[](Layout& l) {
         // 2 lanes of 255 bits times 2^60 slots; the type is refused later.
         for (auto& b : l.buffers) b.dtype = {kDLFloat, 255, 2}, b.shape[0] = std::int64_t{1} << 60;
       },
       SINKTRAP_SIZE_OVERFLOW},
      {[](Layout& l) { l.buffers[A].dtype.lanes = 3; }, SINKTRAP_DTYPE},
      {[](Layout& l) { l.buffers[DA].device.device_id = 1; }, SINKTRAP_DEVICE},
      {[](Layout& l) {
         l.buffers[A].strides = {1, 1, 1, 1};
       },
       SINKTRAP_STRIDE},
      {[](Layout& l) { l.buffers[A].address = 1; }, SINKTRAP_DATA},
      {[](Layout& l) { l.buffers[B].address = l.buffers[DA].address; }, SINKTRAP_ALIASING},
  };
  for (std::size_t first = 0; first < damages.size(); ++first) {
    Layout l = valid_layout();
    with_memory(l);
    for (std::size_t i = damages.size(); i-- > first;) damages[i].first(l);
    EXPECT_EQ(code_name(validate(l.view(), SINKTRAP_PROFILE_STRICT).code), code_name(damages[first].second));
  }
}

TEST(Validate, OneExpertIsShared) {
  const Layout one = valid_layout(1, 1), two = valid_layout(1, 2);
  EXPECT_EQ(validate(one.view(), SINKTRAP_PROFILE_STRICT), verdict_of(SINKTRAP_OK));
  EXPECT_EQ(validate(two.view(), SINKTRAP_PROFILE_STRICT), verdict_of(SINKTRAP_OUTER_DIM, A, 1, 2, 1));
}

TEST(Validate, ConsistentLayouts) {
  Layout l = valid_layout();
  EXPECT_TRUE(expert_layouts_consistent(l.view().buffers[A], l.view().buffers[DB]));
  l.buffers[A].shape[1] = 2;
  EXPECT_FALSE(expert_layouts_consistent(l.view().buffers[A], l.view().buffers[DB]));
}

TEST(Validate, UnknownDeviceTypesAreNumbers) {
  DLDevice device{};
  const std::int32_t type = INT32_MIN;
  std::memcpy(&device.device_type, &type, sizeof type);
  device.device_id = 5;
  EXPECT_EQ(device_key(device), kMin + 5);
}

}  // namespace
}  // namespace sinktrap::reference
