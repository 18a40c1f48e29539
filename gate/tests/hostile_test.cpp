// A library may end, hang or crash the process outside of what is judged: the exit code stays the program's.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "program.hpp"

namespace sinktrap::testing {
namespace {

Ended hostile(const char* how, const std::string& before, const std::string& after) {
  setenv("HOSTILE", how, 1);
  Ended e = program(before + " --impl '" SINKTRAP_HOSTILE "' " + after);
  unsetenv("HOSTILE");
  return e;
}

const char* const kLayout =
    "n=2 gate_up_lora_a=8x1x32x64 gate_up_lora_b=8x2x64x16 down_lora_a=8x2x16x32 down_lora_b=8x1x64x16 H=64 "
    "F=32";

TEST(Hostile, HonestWithoutAWord) {
  EXPECT_EQ(hostile("", "run --cases 60", "").code, 0);
  const Ended e = hostile("", "validate", kLayout);
  EXPECT_EQ(e.code, 0) << e.out << e.err;
}

TEST(Hostile, EndingTheProcessWhenLoadedIsNoSuccess) {
  const std::string line = "'layout " + std::string(kLayout) + "'";
  for (const auto& [command, rest] :
       {std::pair<std::string, std::string>{"run --cases 60", ""}, {"validate", kLayout}, {"check", line}}) {
    const Ended e = hostile("load", command, rest);
    EXPECT_EQ(e.code, 2) << command << e.out << e.err;
    EXPECT_NE(e.err.find("ended the process with status 0 while it was loaded"), std::string::npos) << e.err;
    EXPECT_TRUE(one_line(e.err)) << e.err;
  }
}

TEST(Hostile, EndingTheProcessInValidateIsACrash) {
  const Ended e = hostile("validate", "validate", kLayout);
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  EXPECT_NE(e.err.find("ended the process with status 0 in validate"), std::string::npos) << e.err;
  EXPECT_EQ(hostile("validate", "check", "'layout " + std::string(kLayout) + "'").code, 1);
}

TEST(Hostile, ACheckOfWhatIsRefusedIsNoSuccess) {
  const char* const line = "'forward T=1 n=1 H=1 F=1 R=1 S=1 ranks=1 slots=0 fill=lattice seed=1'";
  const Ended honest = hostile("", "check", line);
  EXPECT_EQ(honest.code, 0) << honest.out << honest.err;
  const Ended e = hostile("refuse", "check", line);
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  EXPECT_NE(e.out.find("NOT CONFORMING"), std::string::npos) << e.out;
}

TEST(Hostile, ValidateHasALimit) {
  const Ended e = hostile("endless", "validate", kLayout);
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  EXPECT_NE(e.err.find("TIMED_OUT: no verdict within 60 s in validate"), std::string::npos) << e.err;
}

TEST(Hostile, CrashingAtTheEndOfTheProcessLeavesTheCodeAlone) {
  EXPECT_EQ(hostile("end", "run --cases 60", "").code, 0);
  EXPECT_EQ(hostile("end", "validate", "n=2 gate_up_lora_a=3x1").code, 2);
}

}  // namespace
}  // namespace sinktrap::testing
