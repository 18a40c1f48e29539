// Each access outside of its memory ends the process with a report that names the kernel's file and line, the
// block and the thread; each corrected twin is clean under every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda_impl/simt/on_cpu.hpp"
#include "cuda_impl/simt_tests/defect_line.hpp"

namespace sinktrap::simt {
namespace {

constexpr std::uint64_t kSchedules = 100;

class Address : public testing::TestWithParam<Defect> {
 protected:
  ~Address() override { schedule(0); }
};

TEST_P(Address, EndsTheProcessWithFileLineBlockAndThread) {
  const Defect& defect = GetParam();
  const std::string place = place_of(defect);
  ASSERT_FALSE(place.empty()) << "no marker in " << defect.file;
  // The second schedule begins somewhere else; each costs a process and a symboliser.
  for (const std::uint64_t seed : {0, 7}) {
    schedule(seed);
    std::string report = defect.finding;
    report.append(".*").append(place).append("|").append(place).append(".*").append(defect.finding);
    EXPECT_DEATH(defect.run(true), report);
    EXPECT_DEATH(defect.run(true), "simt: in block .[0-9],0,0. thread .[0-9]+,0,0.");
  }
}

TEST_P(Address, TwinIsCleanUnderEverySchedule) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    ASSERT_TRUE(GetParam().run(false)) << "schedule " << seed << ": " << error();
  }
}

unsigned char* device_bytes(std::uint64_t count) { return static_cast<unsigned char*>(allocate(count)); }

// Blocks are used again, so each promise is asked of fresh ones and of used ones.
TEST(DeviceMemory, ReleasedMemoryIsOutOfReachBeforeItIsUsedAgain) {
  unsigned char* first = device_bytes(100);
  ASSERT_TRUE(release(first));
  EXPECT_DEATH(first[0] = 1, "use-after-poison");
  EXPECT_DEATH(first[99] = first[98], "use-after-poison");
  std::vector<unsigned char*> later;
  int before_reuse = 0;
  for (bool reused = false; !reused && before_reuse < 1000; ++before_reuse) {
    later.push_back(device_bytes(100));
    ASSERT_TRUE(release(later.back()));
    reused = later.back() == first;
  }
  EXPECT_GT(before_reuse, 50) << "an access to released memory is found for so many allocations";
  EXPECT_LT(before_reuse, 1000) << "memory is used again";
}

TEST(DeviceMemory, UsedBlocksArePoisonedAndEndWhereTheAllocationEnds) {
  // The same block size for all of these counts.
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t count = 1 + static_cast<std::uint64_t>(round) * 37 % 120;
    unsigned char* bytes = device_bytes(count);
    ASSERT_TRUE(std::all_of(bytes, bytes + count, [](unsigned char b) { return b == 0xff; })) << round;
    std::fill(bytes, bytes + count, static_cast<unsigned char>(round));
    ASSERT_TRUE(release(bytes));
  }
  for (const std::uint64_t count : {13, 64, 100}) {
    unsigned char* bytes = device_bytes(count);
    EXPECT_DEATH(bytes[count] = 1, "use-after-poison") << count;
    EXPECT_DEATH(*(bytes - 1) = 1, "use-after-poison") << count;
    ASSERT_TRUE(release(bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Defects, Address, testing::ValuesIn(address_defects()),
                         [](const testing::TestParamInfo<Defect>& info) {
                           return std::string(info.param.name) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace sinktrap::simt
