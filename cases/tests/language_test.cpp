// The case language: text to case and back, and refusals with their place.
#include <gtest/gtest.h>

#include "cases/case.hpp"
#include "cases/lists.hpp"

namespace sinktrap {
namespace {

Case parsed(const std::string& line) {
  auto result = parse_case(line);
  const auto* error = std::get_if<CaseError>(&result);
  EXPECT_EQ(error, nullptr) << line << "\ncolumn " << (error ? error->column : 0) << ": "
                            << (error ? error->what : "");
  return error ? Case{} : std::get<Case>(result);
}

CaseError refused(const std::string& line) {
  auto result = parse_case(line);
  const auto* error = std::get_if<CaseError>(&result);
  EXPECT_NE(error, nullptr) << line;
  return error ? *error : CaseError{};
}

TEST(CaseLanguage, CanonicalLinesPrintAsTheyWereRead) {
  for (const std::string line : {
           "forward T=3 n=2 H=8 F=5 R=3 S=2 layout=shared w13=interleaved type=bf16 ranks=3,1 slots=1,-1,0 "
           "fill=lattice seed=7",
           "forward T=0 n=2 H=8 F=5 R=3 S=1 layout=per_expert w13=contiguous type=f16 ranks=3 fill=dense "
           "seed=0",
           "forward T=4 n=1 H=8 F=6 R=3 S=1 layout=shared w13=interleaved type=bf16 gammas=f32 ranks=3 "
           "slots=0,0,0,0 tp=2 "
           "fill=dense put=nan@x:1:2,-inf@w2:0:7:5 schedule=9 seed=18446744073709551615",
           "forward T=16384 n=2 H=8 F=5 R=3 S=2 layout=shared w13=interleaved type=bf16 ranks=3,1 "
           "slots=(0,-1,1,0)*4096 "
           "fill=lattice seed=7",
           "layout n=2 H=6144 profile=strict gate_up_lora_a=3x1x6x8 gate_up_lora_b=3x2x10x3/type=f16 "
           "down_lora_a=3x2x3x5/type=2.8.4/strides=30x15x5x1 down_lora_b=3x1x8x3/device=2.1/offset=6",
           "layout n=-1 profile=sglang gate_up_lora_a=scalar gate_up_lora_b=-1x0 "
           "down_lora_a=9223372036854775807 "
           "down_lora_b=3x1x8x3x1",
           "layout n=1 profile=strict gate_up_lora_a=1x1x2x1/at=64 gate_up_lora_b=1x1x2x1/at=128 "
           "down_lora_a=1x1x1x1/at=192 "
           "down_lora_b=1x1x1x1/at=0",
           "pack n=2 H=7 F=5 R=3 S=2 layout=shared type=bf16 ranks=3,3 slot=1 r=2 tp=2 tp_rank=1 "
           "factors=separate scaling=0.3 "
           "fill=dense seed=1",
           "shard n=2 H=6 F=8 R=3 S=2 layout=shared type=bf16 ranks=3,2 tp=2 fill=dense seed=1",
           "state n=2 H=8 F=5 R=3 S=2 layout=shared w13=interleaved type=bf16 ranks=3,2 fill=dense seed=1 "
           "steps=bind:1;rebind_other:2;rebind_invalid:3;rebind_strided:4;rebind_same:5;write:1:2:3;load:-1:"
           "9:2;unload:5;"
           "update:all;update:"
           "none;update:0,1,7;"
           "forward:0,-1:2;forward:none:3",
       })
    EXPECT_EQ(print_case(parsed(line)), line);
}

TEST(CaseLanguage, DefaultsAreFilledIn) {
  EXPECT_EQ(print_case(parsed("forward T=1 n=2 H=8 F=5 R=3 S=2 slots=0")),
            "forward T=1 n=2 H=8 F=5 R=3 S=2 layout=shared w13=interleaved type=bf16 ranks=3,3 slots=0 "
            "fill=lattice seed=0");
  // With n = 1 the two expert layouts coincide.
  EXPECT_EQ(std::get<ForwardCase>(parsed("forward T=0 n=1 H=8 F=5 R=3 S=2 layout=per_expert")).layer.layout,
            ExpertLayout::shared);
}

TEST(CaseLanguage, EveryFieldThatIsPrintedIsRead) {
  const auto c =
      std::get<ForwardCase>(parsed("forward T=2 n=3 H=8 F=4 R=6 S=2 layout=per_expert w13=contiguous "
                                   "type=f16 gammas=f32 ranks=5,0 slots=1,-1 tp=4 "
                                   "fill=huge put=inf@gammas:1:2 schedule=3 seed=4"));
  EXPECT_EQ(c.layer.d, (Dimensions{3, 8, 4, 6, 2}));
  EXPECT_EQ(c.layer.layout, ExpertLayout::per_expert);
  EXPECT_EQ(c.layer.w13, SINKTRAP_W13_CONTIGUOUS);
  EXPECT_EQ(c.layer.type, Element::f16);
  EXPECT_EQ(c.layer.gammas, Element::f32);
  EXPECT_EQ(c.layer.ranks, (std::vector<std::int64_t>{5, 0}));
  EXPECT_EQ(c.slots, (std::vector<std::int32_t>{1, -1}));
  EXPECT_EQ(c.tp, 4);
  EXPECT_EQ(c.layer.fill, Fill::huge);
  ASSERT_EQ(c.layer.put.size(), 1u);
  EXPECT_EQ(c.layer.put[0], (Put{Put::What::inf, "gammas", {1, 2}}));
  EXPECT_EQ(c.layer.schedule, 3u);
  EXPECT_EQ(c.layer.seed, 4u);
}

TEST(CaseLanguage, RefusalsNameTheColumn) {
  const std::string ok = "forward T=1 n=2 H=8 F=5 R=3 S=2 slots=0";
  EXPECT_EQ(refused("").column, 1u);
  EXPECT_EQ(refused("forwards T=1").column, 1u);
  EXPECT_EQ(refused(ok + " colour=red").column, ok.size() + 2);  // unknown
  EXPECT_NE(refused(ok + " colour=red").what.find("unknown field colour"), std::string::npos);
  EXPECT_NE(refused("forward T=1 n=2 H=8 F=5 R=3 slots=0").what.find("S= is missing"), std::string::npos);
  EXPECT_EQ(refused("forward T=1 n=2 H=8 F=5 R=3 S=2 slots=2").column, 39u);    // value out of range
  EXPECT_EQ(refused("forward T=2 n=2 H=8 F=5 R=3 S=2 slots=0,7").column, 41u);  // place inside a list
  EXPECT_EQ(refused("forward T=1 n=2 H=0 F=5 R=3 S=2 slots=0").column, 19u);
  EXPECT_EQ(refused("forward T=1 T=1").column, 13u);  // twice
  EXPECT_EQ(refused("forward T=1 lonely").column, 13u);
  EXPECT_NE(refused(ok + " ranks=1").what.find("2 entries"), std::string::npos);
  EXPECT_NE(refused(ok + " fill=rubbish").what.find("lattice, dense"), std::string::npos);
  EXPECT_NE(refused(ok + " tp=2").what.find("divide F"), std::string::npos);
  EXPECT_NE(refused(ok + " gammas=f16").what.find("f32"), std::string::npos);
  EXPECT_NE(refused("layout n=2").what.find("gate_up_lora_a= is missing"), std::string::npos);
}

// A larger one is no value of DLPack's enumeration: to load it would be undefined.
TEST(CaseLanguage, DeviceTypesEndWhereTheirEnumerationDoes) {
  const auto layout = [](int device) {
    return "layout n=1 gate_up_lora_a=1x1x2x1/device=" + std::to_string(device) +
           ".2 gate_up_lora_b=1x1x2x1 down_lora_a=1x1x1x1 down_lora_b=1x1x1x1";
  };
  EXPECT_EQ(std::get<LayoutCase>(parsed(layout(15))).buffers[0].device.device_type, 15);
  EXPECT_EQ(refused(layout(16)).column, 42u);
}

TEST(CaseLanguage, PutsAreCheckedAgainstTheTensor) {
  const std::string ok = "forward T=1 n=2 H=8 F=5 R=3 S=2 slots=0 put=";
  parsed(ok + "nan@w13:1:9:7");
  for (const char* bad : {"nan", "nan@y:1", "zero@x:0:0", "nan@x:0", "nan@x:0:8", "nan@x:0:0:0", "nan@x:1:0",
                          "nan@x:-1:0", "nan@"})
    EXPECT_GE(refused(ok + bad).column, ok.size() + 1) << bad;
}

TEST(CaseLanguage, LinesThatAskForTooMuchAreRefused) {
  EXPECT_NE(
      refused("forward T=1048576 n=2 H=2000000000 F=2000000000 R=1 S=1 slots=0*1048576").what.find("GiB"),
      std::string::npos);
  refused("forward T=1048577 n=2 H=8 F=5 R=3 S=2 slots=0");
  refused("forward T=3 n=2 H=8 F=5 R=3 S=2 slots=(0,0)*9223372036854775807");
  refused("forward T=3 n=2 H=8 F=5 R=3 S=2 slots=0*0");
  refused(std::string(CaseLimits::max_line + 1, 'x'));
}

TEST(CaseLanguage, ListsHaveAShortForm) {
  const ListLimits limits{1 << 20, -1, 9};
  const auto list = [&](std::string_view text) {
    return std::get<std::vector<std::int64_t>>(parse_list(text, limits));
  };
  EXPECT_EQ(list("-1*3,(0,1)*2,5"), (std::vector<std::int64_t>{-1, -1, -1, 0, 1, 0, 1, 5}));
  EXPECT_EQ(print_list(std::vector<std::int64_t>(100, 4)), "4*100");
  std::vector<std::int64_t> runs(60, 1);
  runs.insert(runs.end(), 50, -1);
  runs.push_back(3);
  EXPECT_EQ(print_list(runs), "1*60,-1*50,3");
  EXPECT_EQ(list(print_list(runs)), runs);
  for (const char* bad : {"", ",", "1,", "(1", "(1)", "1*", "1*x", "()*2", "1 2", "99", "(1,2)*0", "--1"})
    EXPECT_TRUE(std::holds_alternative<CaseError>(parse_list(bad, limits))) << bad;
}

}  // namespace
}  // namespace sinktrap
