// Every planted defect is reported with its kernel's file and line, under every schedule; every corrected
// twin is clean under every schedule.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

constexpr std::uint64_t kSchedules = 100;

int line_of(const Defect& defect) {
  std::ifstream source(std::string(SINKTRAP_SOURCE_DIR) + "/cuda_impl/simt_tests/" + defect.file);
  const std::string marker = std::string("// defect: ") + defect.name;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number)
    if (line.size() >= marker.size() && line.compare(line.size() - marker.size(), marker.size(), marker) == 0)
      return number;
  return 0;
}

class Planted : public testing::TestWithParam<Defect> {
 protected:
  ~Planted() override { schedule(0); }
};

TEST_P(Planted, IsReportedWithFileAndLine) {
  const Defect& defect = GetParam();
  const int line = line_of(defect);
  ASSERT_GT(line, 0) << "no marker in " << defect.file;
  const std::string place = std::string("cuda_impl/simt_tests/") + defect.file + ":" + std::to_string(line);
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

std::vector<Defect> all_defects() {
  std::vector<Defect> all;
  for (const auto& group : {barrier_defects(), race_defects(), fence_defects()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Defects, Planted, testing::ValuesIn(all_defects()),
                         [](const testing::TestParamInfo<Defect>& info) {
                           return std::string(info.param.name) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace sinktrap::simt
