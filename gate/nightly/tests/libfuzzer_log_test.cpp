// Logs as libFuzzer of clang 14 wrote them.
#include "gate/nightly/libfuzzer_log.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "gate/nightly/bounds.hpp"

namespace sinktrap::nightly {
namespace {

constexpr const char* kQuietRun = R"(INFO: Running with entropic power schedule (0xFF, 100).
INFO: Seed: 1209574007
INFO: Loaded 1 modules   (30681 inline 8-bit counters): 30681 [0x55b66229bb30, 0x55b6622a3309),
INFO: seed corpus: files: 36 min: 82b max: 207b total: 4545b rss: 36Mb
#16	pulse  cov: 4854 ft: 9164 corp: 12/1268b exec/s: 8 rss: 80Mb
#37	INITED cov: 5023 ft: 9977 corp: 30/3520b exec/s: 9 rss: 97Mb
#41	NEW    cov: 5024 ft: 9979 corp: 31/3601b lim: 207 exec/s: 10 rss: 98Mb L: 81/207 MS: 4 ShuffleBytes-CopyPart-
#55	REDUCE cov: 5024 ft: 9979 corp: 31/3590b lim: 207 exec/s: 11 rss: 98Mb L: 70/207 MS: 1 EraseBytes-
#64	pulse  cov: 5024 ft: 9979 corp: 31/3590b lim: 207 exec/s: 12 rss: 98Mb
#90	DONE   cov: 5030 ft: 9999 corp: 33/3700b lim: 207 exec/s: 9 rss: 98Mb
Done 90 runs in 10 second(s)
stat::number_of_executed_units: 91
stat::peak_rss_mb:              221
)";

constexpr const char* kCrash = R"(#2	INITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb
load-leaves-no-trace: after load: 2 of 4 elements differ
==18104== ERROR: libFuzzer: deadly signal
    #0 0x55d6c8 in __sanitizer_print_stack_trace (/b/fuzz_case+0x55d6c8)
    #1 0x4a5e51 in fuzzer::PrintStackTrace() (/b/fuzz_case+0x4a5e51)
    #2 0x48a2c9 in fuzzer::Fuzzer::CrashCallback() (/b/fuzz_case+0x48a2c9)
    #3 0x7f2e13f (/lib/x86_64-linux-gnu/libpthread.so.0+0x1313f)
    #4 0x7f2e ce0 in raise (/lib/x86_64-linux-gnu/libc.so.6+0x38ce0)
    #5 0x7f2e 536 in abort (/lib/x86_64-linux-gnu/libc.so.6+0x22536)
    #6 0x5f1 in sinktrap::parse_case(std::basic_string_view<char>) /s/cases/parse.cpp:12:3
    #7 0x5f2 in LLVMFuzzerTestOneInput /s/fuzz/fuzz_case.cpp:70:3
SUMMARY: libFuzzer: deadly signal
MS: 0 ; base unit: 0000000000000000000000000000000000000000
artifact_prefix='/w/artifacts/'; Test unit written to /w/artifacts/crash-0a1b
)";

RunLog log_of(const std::string& text) {
  RunLog log;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) log.add(line);
  return log;
}

TEST(LibFuzzerLog, ProgressLinesAreRead) {
  const auto p = parse_progress(
      "#41\tNEW    cov: 5024 ft: 9979 corp: 31/3601b lim: 207 exec/s: 10 rss: 98Mb L: 81/207 MS: 4 "
      "ShuffleBytes-");
  ASSERT_TRUE(p);
  EXPECT_EQ(p->executions, 41);
  EXPECT_EQ(p->event, "NEW");
  EXPECT_EQ(p->coverage, 5024);
  EXPECT_EQ(p->features, 9979);
  EXPECT_EQ(p->corpus, 31);
  EXPECT_EQ(p->per_second, 10);
}

TEST(LibFuzzerLog, OtherLinesAreNoProgress) {
  for (const char* line : {"", "#", "#x NEW cov: 1", "#12", "    #0 0x55 in f (x+1)", "INFO: Seed: 1",
                           "#12 SOLD cov: 1", "# law: x", "#99999999999999999999 NEW cov: 1"})
    EXPECT_FALSE(parse_progress(line)) << line;
}

TEST(LibFuzzerLog, AWholeRunCountsItsLastStatistics) {
  const RunLog log = log_of(kQuietRun);
  EXPECT_EQ(log.executions(), 91);
  EXPECT_EQ(log.last().coverage, 5030);
  EXPECT_EQ(log.last().corpus, 33);
  EXPECT_TRUE(log.initialised());
  EXPECT_EQ(log.summary(), "");
  EXPECT_EQ(log.artifact(), "");
}

TEST(LibFuzzerLog, ACrashNamesTheArtifactThePlaceAndWhatWasSaid) {
  const RunLog log = log_of(kCrash);
  EXPECT_EQ(log.summary(), "libFuzzer: deadly signal");
  EXPECT_EQ(log.artifact(), "/w/artifacts/crash-0a1b");
  EXPECT_EQ(log.said(), "load-leaves-no-trace: after load: 2 of 4 elements differ");
  EXPECT_EQ(log.frame(), "sinktrap::parse_case(std::basic_string_view<char>)");
}

TEST(LibFuzzerLog, ACrashAmongTheSeedsIsNotInitialised) {
  EXPECT_FALSE(log_of("#1\tpulse  cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 1Mb").last().coverage == 0);
  EXPECT_FALSE(log_of("INFO: Seed: 1\n==1== ERROR: libFuzzer: deadly signal\n").initialised());
}

TEST(LibFuzzerLog, ItsTextHasBeginningAndEndWithinTheBounds) {
  RunLog log;
  log.add("the first line");
  for (int i = 0; i < 200000; ++i) log.add("a line that an implementation printed " + std::to_string(i));
  log.add("the last line");
  const std::string text = log.text();
  EXPECT_LE(text.size(), Bounds::log_head + Bounds::log_tail + 2 * Bounds::log_line);
  EXPECT_EQ(text.find("the first line"), 0u);
  EXPECT_NE(text.find("the last line"), std::string::npos);
  EXPECT_NE(text.find("lines left out"), std::string::npos);
}

TEST(LibFuzzerLog, ALongCurveKeepsItsShapeAndItsEnd) {
  Curve curve;
  for (int i = 0; i < 10000; ++i) curve.add({static_cast<double>(i), i, i / 2, i, 1, 5});
  EXPECT_LE(curve.samples().size(), static_cast<std::size_t>(Bounds::curve_points));
  EXPECT_GT(curve.samples().size(), static_cast<std::size_t>(Bounds::curve_points / 4));
  EXPECT_EQ(curve.samples().back().executions, 9999);
  for (std::size_t i = 1; i < curve.samples().size(); ++i)
    EXPECT_LT(curve.samples()[i - 1].seconds, curve.samples()[i].seconds);
}

}  // namespace
}  // namespace sinktrap::nightly
