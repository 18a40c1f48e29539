// Whatever a user gets wrong is one clear line on stderr and exit code 2.
#include <gtest/gtest.h>

#include "program.hpp"

namespace sinktrap::testing {
namespace {

void expect_refused(const std::string& arguments, const std::string& must_say) {
  const Ended e = program(arguments);
  EXPECT_EQ(e.code, 2) << arguments << "\n" << e.err;
  EXPECT_TRUE(one_line(e.err)) << arguments << "\n" << e.err;
  EXPECT_NE(e.err.find(must_say), std::string::npos) << arguments << "\n" << e.err;
  EXPECT_EQ(e.out, "") << arguments;
}

TEST(BadInput, Flags) {
  expect_refused("", "subcommand");
  expect_refused("run --colour", "--colour");
  expect_refused("run --cases many", "cases");
  expect_refused("run --cases -1", "cases");
  for (const char* seconds : {"nan", "inf", "-1", "1e300", "0x10", "5s", "''"}) {
    expect_refused(std::string("run --timeout ") + seconds, "--timeout");
    expect_refused(std::string("run --seconds ") + seconds, "--seconds");
    expect_refused(std::string("nightly --hours ") + seconds, "--hours");
  }
  expect_refused("run --suite huge", "smoke, conformance");
  expect_refused("run --law no-such-law", "no-such-law");
  expect_refused("run --json - --junit -", "stdout");
  expect_refused("list everything", "implementations, laws");
  expect_refused("frobnicate", "frobnicate");
  expect_refused("validate --profile loose x", "strict or sglang");
  expect_refused("validate", "LAYOUT");
  expect_refused("check", "no case");
  expect_refused("replay", "files");
}

TEST(BadInput, CaseLines) {
  expect_refused("check 'forward T=1 n=2 H=8 F=5 R=3 S=2 slots=9'", "column 39");
  expect_refused("check 'sideways T=1'", "expected layout, forward");
  expect_refused("check --file nowhere.cases", "nowhere.cases");
  std::ofstream(scratch_folder() / "bad.cases")
      << "# fine\nforward T=0 n=1 H=1 F=1 R=1 S=1\nforward T=zero\n";
  expect_refused("check --file bad.cases", "bad.cases:3:11");
  expect_refused("validate 'n=2 gate_up_lora_a=3x1'", "gate_up_lora_b= is missing");
  expect_refused("validate 'n=2 gate_up_lora_a=3xq'", "column");
}

TEST(BadInput, Implementations) {
  expect_refused("run --impl nothing", "known are");
  expect_refused("run --impl ./nothing.so", "no such file");
  expect_refused("run --impl /dev/null", "/dev/null");
  expect_refused("run --impl 'simt:decode?graph=yes'",
                 "create refuses the options \"graph=yes\": options: graph: expected once on or off");
  expect_refused("run --impl 'simt:decode?graph=on&graph=on'", "expected once on or off");
  expect_refused("run --impl 'simt:decode?seams=all'", "unknown key \"seams\"");
  expect_refused("run --impl 'reference?speed=2'", "create refuses the options \"speed=2\"");
  expect_refused("check --impl '" SINKTRAP_PLAIN_C_FOLDER "' 'forward T=0 n=1 H=1 F=1 R=1 S=1'",
                 "expected a shared library (ELF), found a folder");
  expect_refused("run --impl '" + plain_c("wrong_version") + "'", "interface version 2 found, 1 expected");
  std::ofstream(scratch_folder() / "text.so") << "this is no library";
  expect_refused("run --impl ./text.so",
                 "./text.so: expected a shared library (ELF), found a text file; link");
}

TEST(BadInput, JsonLines) {
  const auto file = [](const std::string& text) { std::ofstream(scratch_folder() / "l.jsonl") << text; };
  file("{\"n\": 2\n");
  expect_refused("validate --jsonl l.jsonl", "l.jsonl:1");
  file("{\"n\": 2}\n");
  expect_refused("validate --jsonl l.jsonl", "shapes");
  file("{\"n\": 2, \"shapes\": {\"gate_up_lora_a\": [1, 1.5]}}\n");
  expect_refused("validate --jsonl l.jsonl", "gate_up_lora_a");
  file("{\"n\": 2, \"shapes\": {\"gate_up_lora_a\": [9223372036854775808]}}\n");
  expect_refused("validate --jsonl l.jsonl", "int64");
  file(std::string(100000, '['));
  expect_refused("validate --jsonl l.jsonl", "l.jsonl:1");
  expect_refused("validate --jsonl nowhere.jsonl", "nowhere.jsonl");
}

TEST(BadInput, VectorFiles) {
  const std::string whole = file_text(SINKTRAP_SOURCE_DIR "/corpus/vectors/pack/pack-01.safetensors");
  ASSERT_GT(whole.size(), 100u);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100}, whole.size() - 1}) {
    std::ofstream(scratch_folder() / "cut.safetensors", std::ios::binary) << whole.substr(0, size);
    expect_refused("replay cut.safetensors", "cut.safetensors");
  }
  expect_refused("replay nowhere.safetensors", "nowhere.safetensors");
  std::string renamed = whole;
  renamed.replace(renamed.find("max_rank"), 8, "maxirank");
  std::ofstream(scratch_folder() / "field.safetensors", std::ios::binary) << renamed;
  expect_refused("replay field.safetensors", "max_rank");
}

// A case that none of the laws asked for speaks about is said, and costs the ones behind it nothing.
TEST(BadInput, CasesWithoutALaw) {
  const std::string layout =
      "layout n=1 profile=sglang gate_up_lora_a=2x1x8x6 gate_up_lora_b=2x1x10x4 down_lora_a=2x1x4x5 "
      "down_lora_b=2x1x6x4\n";
  const std::string batch =
      "forward T=1 n=1 H=1 F=1 R=1 S=1 layout=shared w13=interleaved type=bf16 ranks=0 slots=-1 fill=lattice "
      "seed=0\n";
  std::ofstream(scratch_folder() / "mixed.cases") << layout << batch;
  const Ended e = program("check --impl reference --law lattice-is-exact --file mixed.cases");
  EXPECT_EQ(e.code, 0) << e.err;
  EXPECT_NE(e.out.find("not judged"), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("reference lattice-is-exact"), std::string::npos) << e.out;
  std::ofstream(scratch_folder() / "mixed.cases") << layout;
  const Ended none = program("check --impl reference --law lattice-is-exact --file mixed.cases");
  EXPECT_EQ(none.code, 2) << none.out;
  EXPECT_NE(none.err.find("no law asked for"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace sinktrap::testing
