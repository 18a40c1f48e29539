// Every planted defect is reported with its kernel's file and line, under every schedule; every corrected
// twin is clean under every schedule.
#include <gtest/gtest.h>

#include <string>

#include "cuda_impl/simt_tests/defect_line.hpp"

namespace sinktrap::simt {
namespace {

constexpr std::uint64_t kSchedules = 100;

class Planted : public testing::TestWithParam<Defect> {
 protected:
  ~Planted() override { schedule(0); }
};

TEST_P(Planted, IsReportedWithFileAndLine) {
  const Defect& defect = GetParam();
  const std::string place = place_of(defect);
  ASSERT_FALSE(place.empty()) << "no marker in " << defect.file;
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    ASSERT_FALSE(defect.run(true)) << "schedule " << seed;
    const std::string text = error();
    EXPECT_NE(text.find(place), std::string::npos)
        << "schedule " << seed << ": no " << place << " in " << text;
    EXPECT_NE(text.find(defect.finding), std::string::npos) << "schedule " << seed << ": " << text;
    EXPECT_NE(text.find("block ("), std::string::npos) << text;
    EXPECT_NE(text.find("thread"), std::string::npos) << text;
    if (HasFailure()) return;
  }
}

TEST_P(Planted, TwinIsCleanUnderEverySchedule) {
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    schedule(seed);
    ASSERT_TRUE(GetParam().run(false)) << "schedule " << seed << ": " << error();
  }
}

TEST(RaceRuntime, ThreadsAreInterruptedBetweenAccesses) {
  int seen_half_way = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    schedule(seed);
    seen_half_way += half_way_values();
  }
  schedule(0);
  EXPECT_GT(seen_half_way, 0);
  EXPECT_EQ(half_way_values(), 0) << "the ascending schedule interrupts nobody";
}

std::vector<Defect> all_defects() {
  std::vector<Defect> all;
  for (const auto& group : {barrier_defects(), race_defects(), fence_defects(), copy_defects()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Defects, Planted, testing::ValuesIn(all_defects()),
                         [](const testing::TestParamInfo<Defect>& info) {
                           return std::string(info.param.name) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace sinktrap::simt
