// Each access outside of its memory ends the process with a report that names the kernel's file and line, the
// block and the thread; each corrected twin is clean under every schedule.
#include <gtest/gtest.h>

#include <string>

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
    const std::string finding = defect.finding,
                      report = finding + ".*" + place + "|" + place + ".*" + finding;
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

INSTANTIATE_TEST_SUITE_P(Defects, Address, testing::ValuesIn(address_defects()),
                         [](const testing::TestParamInfo<Defect>& info) {
                           return std::string(info.param.name) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace sinktrap::simt
