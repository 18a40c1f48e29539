// The commands end to end: conforming and faulty plug-ins, reports, verdicts, vectors.
#include "program.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cases/case.hpp"

namespace sinktrap::testing {
namespace {

using Json = nlohmann::json;

Json run_json(const std::string& arguments, int expected_code) {
  const Ended e = program("run --json - " + arguments);
  EXPECT_EQ(e.code, expected_code) << arguments << "\n" << e.err;
  return Json::parse(e.out, nullptr, false);
}

std::vector<Json> failing_laws(const Json& report) {
  std::vector<Json> laws;
  for (const Json& law : report["implementations"][0]["laws"])
    if (!law["failures"].empty()) laws.push_back(law);
  return laws;
}

TEST(Run, TheDefaultImplementationConforms) {
  const Ended e = program("run --cases 600 --seed 3");
  EXPECT_EQ(e.code, 0) << e.out << e.err;
  EXPECT_NE(e.out.find("CONFORMING"), std::string::npos);
  EXPECT_EQ(e.err, "");
}

TEST(Run, TheReportSaysWhichFaultsTheCasesCouldSee) {
  const Json report =
      run_json("--suite conformance --cases 200 --law lattice-is-exact --law dense-is-bounded", 0);
  ASSERT_TRUE(report.is_object());
  const Json& power = report["implementations"][0]["power"];
  EXPECT_EQ(power.size(), 10u);
  for (const auto& [kind, counts] : power.items()) EXPECT_GT(counts["seen"], counts["vacuous"]) << kind;
  EXPECT_EQ(report["implementations"][0]["laws"][0]["bound_stage"], "");
}

TEST(Run, AnHonestPluginConforms) {
  const Json report = run_json("--impl '" + plain_c() + "'", 0);
  ASSERT_TRUE(report.is_object());
  EXPECT_TRUE(report["conforming"]);
  EXPECT_EQ(report["seed"], 1);
  EXPECT_GE(report["cases"], 2000);
  for (const Json& law : report["implementations"][0]["laws"]) {
    std::int64_t sum = 0;
    for (const auto& [status, count] : law["counts"].items()) sum += count.get<std::int64_t>();
    EXPECT_EQ(sum, law["cases"].get<std::int64_t>()) << law["id"];
  }
}

TEST(Run, APlantedFaultInLoadShrinksToACaseThatAPersonCanCompute) {
  const Json report = run_json("--cases 2000 --impl '" + plain_c("up_half_at_r") + "'", 1);
  const auto laws = failing_laws(report);
  ASSERT_FALSE(laws.empty());
  bool found = false;
  for (const Json& law : laws) {
    if (law["id"] != "load-leaves-no-trace") continue;
    const Json& failure = law["failures"][0];
    EXPECT_EQ(failure["status"], "FAILED");
    const auto parsed = parse_case(failure["shrunk"].get<std::string>());
    ASSERT_TRUE(std::holds_alternative<Case>(parsed)) << failure["shrunk"];
    const auto& pack = std::get<PackCase>(std::get<Case>(parsed));
    EXPECT_LE(pack.layer.d.n, 2);
    EXPECT_LE(pack.layer.d.H, 3);
    EXPECT_LE(pack.layer.d.F, 2);
    EXPECT_EQ(pack.layer.d.R, 2);
    EXPECT_EQ(pack.layer.d.S, 1);
    found = true;
    // The line repeats with the command of the report.
    const Ended again = program("check --impl '" + plain_c("up_half_at_r") + "' '" +
                                failure["shrunk"].get<std::string>() + "'");
    EXPECT_EQ(again.code, 1) << again.out << again.err;
    EXPECT_NE(again.out.find("FAILED"), std::string::npos);
  }
  EXPECT_TRUE(found);
}

class Faults : public ::testing::TestWithParam<const char*> {};

TEST_P(Faults, AreFound) {
  const Json report = run_json("--cases 2000 --impl '" + plain_c(GetParam()) + "'", 1);
  EXPECT_FALSE(failing_laws(report).empty());
}

INSTANTIATE_TEST_SUITE_P(PlainC, Faults,
                         ::testing::Values("up_half_at_r", "up_reads_gate_bridge", "expert_zero_for_all",
                                           "stale_slot", "no_gamma", "tail_not_zeroed", "accept_mixed_layout",
                                           "uninitialised_base_rows", "writes_past_end", "modifies_input",
                                           "last_rank_column_lost"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Run, ACrashCostsItsCasesAndTheRunGoesOn) {
  const Json report = run_json("--impl '" + plain_c("crash_in_forward") + "' --cases 400", 1);
  std::int64_t crashed = 0, passed = 0;
  for (const Json& law : report["implementations"][0]["laws"]) {
    crashed += law["counts"]["CRASHED"].get<std::int64_t>();
    passed += law["counts"]["PASSED"].get<std::int64_t>();
    for (const Json& f : law["failures"])
      EXPECT_NE(f["reason"].get<std::string>().find("in forward"), std::string::npos) << f["reason"];
  }
  EXPECT_GT(crashed, 0);
  EXPECT_GT(passed, 100);
  EXPECT_NE(file_text(scratch_folder() / ".sinktrap/failures.cases").find("# CRASHED"), std::string::npos);
}

TEST(Run, AHangIsTimedOut) {
  const Json report = run_json(
      "--impl '" + plain_c("hang_in_forward") + "' --law dense-is-bounded --cases 6 --timeout 0.3", 1);
  EXPECT_GE(report["implementations"][0]["laws"][0]["counts"]["TIMED_OUT"], 1);
}

TEST(Run, AnImplementationThatAlwaysHangsIsThroughAfterAFewLimits) {
  const Json report =
      run_json("--impl '" + plain_c("hang_in_forward") + "' --timeout 0.3 --jobs 2 --line-up off", 1);
  std::int64_t hung = 0, skipped = 0;
  for (const Json& law : report["implementations"][0]["laws"]) {
    hung += law["counts"]["TIMED_OUT"].get<std::int64_t>();
    skipped += law["counts"]["SKIPPED"].get<std::int64_t>();
  }
  EXPECT_GE(hung, 8);
  EXPECT_LE(hung, 9);  // the eighth came while another worker had begun a case
  EXPECT_GT(skipped, 1000);
}

TEST(Run, JUnitHasATestcaseForEveryLaw) {
  const Ended e = program("run --cases 200 --junit - --impl '" + plain_c("no_gamma") + "'");
  EXPECT_EQ(e.code, 1);
  EXPECT_EQ(e.out.rfind("<?xml", 0), 0u);
  EXPECT_NE(e.out.find("<failure message="), std::string::npos);
  EXPECT_NE(e.out.find("</testsuites>"), std::string::npos);
}

TEST(Run, ATimeLimitEndsIt) {
  const Json report = run_json("--seconds 0.5 --impl reference", 0);
  EXPECT_LT(report["seconds"], 60);  // without the limit there would be billions of cases
  EXPECT_GT(report["cases"], 100);
}

TEST(Validate, VectorsHaveTheirCodesInBothProfiles) {
  const std::string file = SINKTRAP_SOURCE_DIR "/corpus/vectors/layouts.jsonl";
  std::ifstream lines(file);
  std::vector<Json> expected;
  for (std::string line; std::getline(lines, line);) expected.push_back(Json::parse(line));
  ASSERT_EQ(expected.size(), 240u);
  for (const std::string profile : {"strict", "sglang"})
    for (const std::string implementation : {"reference", "simt"}) {
      std::ostringstream command;
      command << "validate --profile " << profile << " --impl " << implementation << " --jsonl '" << file
              << "'";
      const Ended e = program(command.str());
      EXPECT_EQ(e.code, 0) << e.err;
      std::istringstream out(e.out);
      std::string line;
      for (const Json& vector : expected) {
        ASSERT_TRUE(std::getline(out, line));
        const Json verdict = Json::parse(line);
        EXPECT_EQ(verdict["code"], vector[profile]) << vector;
        for (const char* field : {"code", "buffer", "axis", "found", "expected", "message"})
          EXPECT_TRUE(verdict.contains(field)) << field;
      }
      EXPECT_FALSE(std::getline(out, line));
    }
}

TEST(Validate, TellsAPersonWhatToDo) {
  const Ended mixed = program(
      "validate n=2 gate_up_lora_a=8x1x32x6144 gate_up_lora_b=8x2x4096x16 down_lora_a=8x2x16x2048 "
      "down_lora_b=8x2x6144x16");
  EXPECT_EQ(mixed.code, 1);
  for (const char* text :
       {"Inkling shared-sink gate-up A and down B must use the same expert layout", "[8, 1, 32, 6144]",
        "[8, 2, 6144, 16]", "shared-outer", "per-expert", "Expand gate_up_lora_a"})
    EXPECT_NE(mixed.out.find(text), std::string::npos) << text << "\n" << mixed.out;
  const Ended shared = program(
      "validate n=2 gate_up_lora_a=2x1x8x6 gate_up_lora_b=2x1x10x4 down_lora_a=2x1x4x5 down_lora_b=2x1x6x4");
  EXPECT_NE(shared.out.find("fully shared adapter"), std::string::npos) << shared.out;
  EXPECT_EQ(program("validate n=2 gate_up_lora_a=3x1x6x8 gate_up_lora_b=3x2x10x3 down_lora_a=3x2x3x5 "
                    "down_lora_b=3x1x8x3")
                .code,
            0);
}

TEST(Replay, VectorsAgree) {
  const std::string folder = SINKTRAP_SOURCE_DIR "/corpus/vectors";
  const Ended e =
      program("replay '" + folder + "'/forward/*.safetensors '" + folder + "'/pack/*.safetensors");
  EXPECT_EQ(e.code, 0) << e.out << e.err;
  std::size_t lines = 0, passed = 0;
  std::istringstream out(e.out);
  for (std::string line; std::getline(out, line); ++lines) passed += line.rfind("PASSED", 0) == 0;
  EXPECT_EQ(lines, 58u);  // 29 files, two implementations
  EXPECT_EQ(passed, lines) << e.out;
}

TEST(Replay, AFaultyPluginFails) {
  const std::string folder = SINKTRAP_SOURCE_DIR "/corpus/vectors";
  EXPECT_EQ(
      program("replay --impl '" + plain_c("no_gamma") + "' '" + folder + "'/forward/*.safetensors").code, 1);
  EXPECT_EQ(
      program("replay --impl '" + plain_c("up_half_at_r") + "' '" + folder + "'/pack/*.safetensors").code, 1);
}

TEST(List, EveryListIsThere) {
  for (const char* what : {"implementations", "laws", "mutants", "suites", "statuses"}) {
    const Ended e = program(std::string("list ") + what);
    EXPECT_EQ(e.code, 0) << what;
    EXPECT_FALSE(e.out.empty()) << what;
  }
  EXPECT_NE(program("list statuses").out.find("VACUOUS"), std::string::npos);
  EXPECT_NE(program("list faults").out.find("lost_token_delta"), std::string::npos);
}

TEST(Help, EveryCommandHasOne) {
  for (const char* command : {"", "run", "check", "validate", "replay", "mutants", "list"}) {
    const Ended e = program(std::string(command) + " --help");
    EXPECT_EQ(e.code, 0) << command;
    EXPECT_NE(e.out.find("--help"), std::string::npos) << command;
  }
}

}  // namespace
}  // namespace sinktrap::testing
