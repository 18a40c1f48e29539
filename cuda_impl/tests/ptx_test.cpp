// cp.async, ldmatrix and mma.sync of the executor against plain loops over the layouts of the PTX ISA.
#include "cuda_impl/simt/ptx.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {
namespace {

// Device memory of one test, filled by the host.
template <class T>
class Device {
 public:
  explicit Device(std::size_t count) : data(static_cast<T*>(allocate(count * sizeof(T)))) {}
  ~Device() { release(data); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  T* const data;
};

struct Tile {
  alignas(16) std::uint16_t v[32][8];  // four 8x8 matrices, one below the other
};

__global__ void read_tiles(std::uint32_t* x4, std::uint32_t* x4_trans, std::uint32_t* x2,
                           std::uint32_t* x2_trans) {
  auto& tile = shared<Tile, struct ReadTile>();
  const unsigned lane = threadIdx.x;
  for (unsigned column = 0; column < 8; ++column)
    tile.v[lane][column] = static_cast<std::uint16_t>(lane * 8 + column);
  __syncthreads();
  std::uint32_t four[4], two[2];
  ldmatrix_x4(four, tile.v[lane]);
  for (unsigned i = 0; i < 4; ++i) x4[lane * 4 + i] = four[i];
  ldmatrix_x4_trans(four, tile.v[lane]);
  for (unsigned i = 0; i < 4; ++i) x4_trans[lane * 4 + i] = four[i];
  // Lanes from 16 on give no row: nothing may be read through theirs.
  ldmatrix_x2(two, lane < 16 ? tile.v[lane] : nullptr);
  for (unsigned i = 0; i < 2; ++i) x2[lane * 2 + i] = two[i];
  ldmatrix_x2_trans(two, lane < 16 ? tile.v[lane] : nullptr);
  for (unsigned i = 0; i < 2; ++i) x2_trans[lane * 2 + i] = two[i];
}

TEST(Ptx, LdmatrixGivesEachLaneThePairsOfTheIsa) {
  for (std::uint64_t seed : {0, 1, 2, 3}) {
    schedule(seed);
    Device<std::uint32_t> x4(128), x4_trans(128), x2(64), x2_trans(64);
    ASSERT_TRUE(launch({1, 32}, read_tiles, x4.data, x4_trans.data, x2.data, x2_trans.data)) << error();
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = i * 8 + lane / 4, column = lane % 4 * 2;
        const auto pair = [](unsigned low, unsigned high) { return high << 16 | low; };
        const std::uint32_t plain = pair(row * 8 + column, row * 8 + column + 1);
        const std::uint32_t turned =
            pair((i * 8 + column) * 8 + lane / 4, (i * 8 + column + 1) * 8 + lane / 4);
        ASSERT_EQ(x4.data[lane * 4 + i], plain) << lane;
        ASSERT_EQ(x4_trans.data[lane * 4 + i], turned) << lane;
        if (i >= 2) continue;
        ASSERT_EQ(x2.data[lane * 2 + i], plain) << lane;
        ASSERT_EQ(x2_trans.data[lane * 2 + i], turned) << lane;
      }
    }
  }
  schedule(0);
}

// One product from matrices in device memory; the fragments by hand, from the table of the ISA.
__global__ void multiply(const std::uint16_t* a, const std::uint16_t* b, float* d, int bf16) {
  const unsigned lane = threadIdx.x, g = lane / 4, c = lane % 4 * 2;
  const auto pair = [](std::uint16_t low, std::uint16_t high) {
    return static_cast<std::uint32_t>(high) << 16 | low;
  };
  std::uint32_t fa[4], fb[2];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = g + (i % 2) * 8, column = c + (i / 2) * 8;
    fa[i] = pair(a[row * 16 + column], a[row * 16 + column + 1]);
  }
  for (unsigned i = 0; i < 2; ++i) fb[i] = pair(b[(c + i * 8) * 8 + g], b[(c + i * 8 + 1) * 8 + g]);
  float fd[4];
  for (unsigned i = 0; i < 4; ++i) fd[i] = d[(g + i / 2 * 8) * 8 + c + i % 2];
  if (bf16)
    mma_bf16(fd, fa, fb);
  else
    mma_f16(fd, fa, fb);
  for (unsigned i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + c + i % 2] = fd[i];
}

// Bits of an integer of at most 8 significant bits, or of a quarter of it, in either format.
std::uint16_t encode(float value, bool bf16) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (bf16) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t half = magnitude == 0 ? 0 : (magnitude - 0x38000000u) >> 13;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
}

TEST(Ptx, MmaIsTheProductOfTheMatricesPlusTheAccumulator) {
  for (int bf16 : {0, 1}) {
    Device<std::uint16_t> a(256), b(128);
    Device<float> d(128);
    std::vector<float> va(256), vb(128), expected(128);
    for (int i = 0; i < 256; ++i) va[static_cast<std::size_t>(i)] = static_cast<float>(i * 7 % 31 - 15) / 4;
    for (int i = 0; i < 128; ++i) vb[static_cast<std::size_t>(i)] = static_cast<float>(i * 5 % 29 - 14);
    for (std::size_t i = 0; i < 256; ++i) a.data[i] = encode(va[i], bf16 != 0);
    for (std::size_t i = 0; i < 128; ++i) b.data[i] = encode(vb[i], bf16 != 0);
    for (std::size_t i = 0; i < 128; ++i) {
      d.data[i] = expected[i] = static_cast<float>(i);
      for (std::size_t k = 0; k < 16; ++k) expected[i] += va[i / 8 * 16 + k] * vb[k * 8 + i % 8];
    }
    ASSERT_TRUE(launch({1, 32}, multiply, a.data, b.data, d.data, bf16)) << error();
    for (std::size_t i = 0; i < 128; ++i) ASSERT_EQ(d.data[i], expected[i]) << i << " bf16 " << bf16;
  }
}

TEST(Ptx, MmaReadsSubnormalsInfinityAndNanOfF16) {
  Device<std::uint16_t> a(256), b(128);
  Device<float> d(128);
  std::memset(a.data, 0, 512), std::memset(b.data, 0, 256), std::memset(d.data, 0, 512);
  b.data[0] = 0x3c00;  // b[0][0] = 1, so column 0 of d is column 0 of a
  const std::uint16_t bits[] = {0x0001, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0x7e00};
  for (std::size_t row = 0; row < 6; ++row) a.data[row * 16] = bits[row];
  ASSERT_TRUE(launch({1, 32}, multiply, a.data, b.data, d.data, 0)) << error();
  EXPECT_EQ(d.data[0], 0x1p-24f);
  EXPECT_EQ(d.data[8], -1023 * 0x1p-24f);
  EXPECT_EQ(d.data[16], 0x1p-14f);
  EXPECT_EQ(d.data[24], 65504.0f);
  EXPECT_EQ(d.data[32], HUGE_VALF);
  EXPECT_TRUE(std::isnan(d.data[40]));
}

// What of four copies can be seen after a wait that leaves kPending groups: groups of 4, 8, 16 bytes, and a
// copy in no group.
template <int kPending>
__global__ void copy_in_groups(const std::uint32_t* from, std::uint32_t* seen) {
  auto& words = shared<std::uint32_t[16], struct CopyWords>();
  cp_async<4>(words, from);
  cp_async_commit();
  cp_async<8>(words + 2, from + 2);
  cp_async_commit();
  cp_async<16>(words + 4, from + 4);
  cp_async_commit();
  cp_async<4>(words + 8, from + 8);
  cp_async_wait<kPending>();
  seen[0] = words[0], seen[1] = words[3], seen[2] = words[7], seen[3] = words[8];
}

TEST(Ptx, ACopyLandsAtItsOwnWaitAndIsNanUntilThen) {
  Device<std::uint32_t> from(16), seen(4);
  for (std::uint32_t i = 0; i < 16; ++i) from.data[i] = 100 + i;
  const auto row = [&seen] { return std::vector<std::uint32_t>(seen.data, seen.data + 4); };
  constexpr std::uint32_t kPoison = 0xffffffff;
  ASSERT_TRUE(launch({1, 1}, copy_in_groups<3>, from.data, seen.data));
  EXPECT_EQ(row(), (std::vector<std::uint32_t>{kPoison, kPoison, kPoison, kPoison}));
  ASSERT_TRUE(launch({1, 1}, copy_in_groups<2>, from.data, seen.data));
  EXPECT_EQ(row(), (std::vector<std::uint32_t>{100, kPoison, kPoison, kPoison}));
  ASSERT_TRUE(launch({1, 1}, copy_in_groups<1>, from.data, seen.data));
  EXPECT_EQ(row(), (std::vector<std::uint32_t>{100, 103, kPoison, kPoison}));
  ASSERT_TRUE(launch({1, 1}, copy_in_groups<0>, from.data, seen.data));
  EXPECT_EQ(row(), (std::vector<std::uint32_t>{100, 103, 107, kPoison})) << "the open group stays pending";
}

__global__ void copy_late(std::uint32_t* from, std::uint32_t* seen) {
  auto& word = shared<std::uint32_t, struct LateWord>();
  cp_async<4>(&word, from);
  cp_async_commit();
  *from = 2;
  cp_async_wait<0>();
  *seen = word;
}

TEST(Ptx, ASourceChangedBeforeTheWaitIsReadChanged) {
  Device<std::uint32_t> from(1), seen(1);
  *from.data = 1;
  ASSERT_TRUE(launch({1, 1}, copy_late, from.data, seen.data));
  EXPECT_EQ(*seen.data, 2u);
}

__global__ void misaligned_copy(const std::uint16_t* from) {
  auto& words = shared<std::uint32_t[4], struct MisalignedWords>();
  cp_async<4>(words, from + 1);
}
__global__ void misaligned_row() {
  auto& tile = shared<Tile, struct MisalignedTile>();
  std::uint32_t r[2];
  ldmatrix_x2(r, &tile.v[threadIdx.x % 16][threadIdx.x == 5 ? 1 : 0]);
}
__global__ void multiply_with_part_of_the_warp() {
  if (threadIdx.x == 7) return;
  float d[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  mma_bf16(d, a, b);
}
__global__ void multiply_in_a_short_warp() {
  float d[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  mma_f16(d, a, b);
}

TEST(Ptx, MisuseFailsTheLaunchAndNamesInstructionAndLine) {
  Device<std::uint16_t> from(8);
  const auto text = [](bool launched) { return launched ? std::string("launched") : std::string(error()); };
  const auto names = [](const std::string& report, const char* instruction) {
    return report.find(instruction) != std::string::npos && report.find("ptx_test.cpp:") != std::string::npos;
  };
  const std::string copy = text(launch({1, 1}, misaligned_copy, from.data)),
                    row = text(launch({1, 32}, misaligned_row)),
                    part = text(launch({1, 32}, multiply_with_part_of_the_warp)),
                    narrow = text(launch({1, 16}, multiply_in_a_short_warp));
  EXPECT_TRUE(names(copy, "cp.async")) << copy;
  EXPECT_TRUE(names(row, "ldmatrix")) << row;
  EXPECT_TRUE(names(part, "mma.sync")) << part;
  EXPECT_TRUE(names(narrow, "mma.sync")) << narrow;
}

}  // namespace
}  // namespace sinktrap::simt
