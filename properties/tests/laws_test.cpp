// The registry as ctest: every law over generated cases, on every built-in implementation that can run here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>

#include "properties/generators.hpp"
#include "properties/law.hpp"
#include "properties/shared_run.hpp"
#include "properties/shrink.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

struct Run {
  const Law* law;
  std::string implementation;
};

void PrintTo(const Run& run, std::ostream* out) { *out << run.implementation << " " << run.law->id; }

std::string word(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

class Laws : public testing::TestWithParam<Run> {};

TEST_P(Laws, HoldOnGeneratedCases) {
  const auto opened = Implementation::open(GetParam().implementation);
  if (const auto* error = std::get_if<std::string>(&opened)) GTEST_SKIP() << *error;
  const auto& implementation = *std::get<std::shared_ptr<const Implementation>>(opened);
  const Law& law = *GetParam().law;
  if (!implementation.can(law.needs)) GTEST_SKIP() << "no capability " << capability_names(law.needs);
  constexpr int kCases = 80;
  int could_see = 0, beyond = 0;  // beyond: of a storage type or layout that the implementation does not have
  for (int k = 0; k < kCases; ++k) {
    const Case c = generate_case(law.generator, 1000 + static_cast<std::uint64_t>(k), k % 60);
    const Judgement j = judge_case(law, c, implementation);
    if (j.status == Status::passed) ++could_see;
    if (j.status == Status::skipped && j.reason.find("has no capability") != std::string::npos) {
      ++beyond;
      continue;
    }
    if (!is_bad(j.status)) {
      ASSERT_TRUE(j.status == Status::passed || j.status == Status::vacuous) << print_case(c) << "\n"
                                                                             << j.reason;
      continue;
    }
    const Case smallest = shrink_case(
        c, [&](const Case& x) { return is_bad(judge_case(law, x, implementation).status); }, 300);
    const Judgement reason = judge_case(law, smallest, implementation);
    FAIL() << law.sentence << "\n  case   " << print_case(smallest) << "\n  reason " << reason.reason
           << "\n  repeat ./sinktrap check --impl " << implementation.argument() << " --law " << law.id
           << " '" << print_case(smallest) << "'";
  }
  // A law whose cases can see nothing proves nothing.
  EXPECT_LT(beyond, kCases / 2);
  EXPECT_GE(could_see, (kCases - beyond) / 2) << law.sentence;
}

std::vector<Run> runs() {
  std::vector<Run> list;
  for (const BuiltIn& b : built_in_implementations())
    for (const Law& law : laws()) list.push_back({&law, b.name});
  return list;
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, Laws, testing::ValuesIn(runs()),
                         [](const testing::TestParamInfo<Run>& info) {
                           return word(info.param.implementation) + "__" +
                                  word(std::string(info.param.law->id));
                         });

TEST(Registry, NamesAreUniqueSentencesAndShortWords) {
  std::set<std::string_view> ids, sentences;
  for (const Law& law : laws()) {
    EXPECT_TRUE(ids.insert(law.id).second) << law.id;
    EXPECT_TRUE(sentences.insert(law.sentence).second) << law.sentence;
    EXPECT_EQ(find_law(law.id), &law);
    EXPECT_GE(std::count(law.sentence.begin(), law.sentence.end(), ' '), 4) << law.sentence;
    EXPECT_GT(law.weight, 0);
  }
  EXPECT_EQ(find_law("no-such-law"), nullptr);
}

TEST(Registry, ACaseThatMemoryIsTooShortForIsSkippedWithTheReason) {
  // 6.1 GiB, of which three slots of 4096 hold an adapter.
  const Case c = std::get<Case>(parse_case(
      "forward T=2 n=2 H=4160 F=3 R=64 S=4096 ranks=64,0*4093,64*2 slots=0,4095 fill=lattice seed=1"));
  const auto opened = Implementation::open("reference");
  const Implementation& reference = *std::get<std::shared_ptr<const Implementation>>(opened);
  const Law &sparse = *find_law("lattice-is-exact"), &other = *find_law("base-tokens-ignore-the-pool");
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_EQ(memory_fault(sparse, c, reference, kGiB), "") << "slots without an adapter take nothing";
  EXPECT_EQ(memory_fault(sparse, c, reference, 1 << 20),
            "the case needs 0.0 GiB of memory under this law, 0.0 GiB are free");
  EXPECT_EQ(memory_fault(other, c, reference, 8 * kGiB),
            "the case needs 24.4 GiB of memory under this law, 8.0 GiB are free");
  EXPECT_EQ(memory_fault(other, c, reference, 25 * kGiB), "");
  // A device's memory holds all of it, whatever is in it.
  sinktrap_implementation_table table = reference.table();
  table.memory.allocate = [](std::uint64_t) -> void* { return nullptr; };
  const auto device = Implementation::from_table(&table, "device", "");
  EXPECT_NE(memory_fault(sparse, c, *device, 6 * kGiB), "");
  EXPECT_EQ(memory_fault(sparse, c, *device, 7 * kGiB), "");
  // Ordinary cases are judged whatever the machine says.
  const Case small =
      std::get<Case>(parse_case("forward T=1 n=1 H=8 F=8 R=2 S=1 slots=0 fill=lattice seed=1"));
  EXPECT_EQ(memory_fault(other, small, reference, 0), "");
}

// The ordered reference, counting its forward calls; broken: the last output is another one.
int forward_calls = 0;
bool broken = false;
std::shared_ptr<const Implementation> counting() {
  static sinktrap_implementation_table table = *reference::ordered_table();
  table.forward = [](sinktrap_instance* instance, const sinktrap_forward_args* args,
                     sinktrap_verdict* verdict) {
    ++forward_calls;
    const auto code = reference::ordered_table()->forward(instance, args, verdict);
    if (broken) static_cast<unsigned char*>(args->out->data)[1] ^= 1;
    return code;
  };
  return Implementation::from_table(&table, "counting", "");
}

TEST(SharedRun, LawsAboutOneBatchShareItAndJudgeAsAlone) {
  const auto implementation = counting();
  const auto parsed = [](const char* line) { return std::get<Case>(parse_case(line)); };
  const char* const line = "forward T=2 n=2 H=4 F=3 R=2 S=2 slots=0,-1 fill=lattice seed=7";
  const Case c = parsed(line), same = parsed(line);
  const Law &exact = *find_law("lattice-is-exact"), &bitwise = *find_law("ordered-is-bitwise");
  for (const bool wrong : {false, true}) {
    broken = wrong;
    const Status expected = wrong ? Status::failed : Status::passed;
    const auto calls_of_both = [&](const Case& judged) {
      forward_calls = 0;
      EXPECT_EQ(judge_case(exact, judged, *implementation).status, expected);
      EXPECT_EQ(judge_case(bitwise, judged, *implementation).status, expected);
      return forward_calls;
    };
    EXPECT_EQ(calls_of_both(c), 2);
    const SharedRun shared(c, *implementation);
    EXPECT_EQ(calls_of_both(c), 1);
    EXPECT_EQ(calls_of_both(c), 0);
    EXPECT_EQ(calls_of_both(same), 2) << "another case, although an equal one";
  }
  EXPECT_EQ(SharedRun::of(c, *implementation), nullptr) << "it ends with its scope";
}

TEST(Generators, MakeCasesOfTheirLawThatParseBack) {
  for (const Law& law : laws())
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const Case c = generate_case(law.generator, seed, static_cast<int>(seed));
      EXPECT_TRUE(law.applies(c)) << law.id << ": " << print_case(c);
      const auto parsed = parse_case(print_case(c));
      ASSERT_TRUE(std::holds_alternative<Case>(parsed)) << print_case(c) << "\n"
                                                        << std::get<CaseError>(parsed).what;
      EXPECT_EQ(std::get<Case>(parsed), c) << print_case(c);
      EXPECT_EQ(generate_case(law.generator, seed, static_cast<int>(seed)), c)
          << "the same seed gives another case";
    }
}

TEST(Generators, KeepExtentsPairwiseDifferent) {
  int different = 0, with_adapter = 0;
  constexpr int kCases = 300;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const auto c = std::get<ForwardCase>(generate_case(Generator::forward_lattice, seed, 40));
    const auto& d = c.layer.d;
    const std::set<std::int64_t> extents = {d.n, d.H, d.F, 2 * d.F, d.R, 2 * d.R};
    different += extents.size() == 6 ? 1 : 0;
    with_adapter += std::any_of(c.slots.begin(), c.slots.end(), [&](std::int32_t s) {
      return s >= 0 && c.layer.ranks[static_cast<std::size_t>(s)] > 0;
    });
  }
  EXPECT_GT(different, kCases * 3 / 4);  // one in twelve is a real layer, whose H is 2F
  EXPECT_GT(with_adapter, kCases * 7 / 10);
}

TEST(Shrinking, EverySmallerCaseParsesAndDiffers) {
  for (const Law& law : laws())
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Case c = generate_case(law.generator, seed, 30);
      for (const Case& s : smaller_cases(c)) {
        EXPECT_NE(s, c);
        const auto parsed = parse_case(print_case(s));
        ASSERT_TRUE(std::holds_alternative<Case>(parsed)) << print_case(s) << "\n"
                                                          << std::get<CaseError>(parsed).what;
        EXPECT_EQ(std::get<Case>(parsed), s) << print_case(s);
      }
    }
}

TEST(Shrinking, ExtentsAtTheEndsOfInt64AreNoTrouble) {
  const auto parsed = parse_case(
      "layout n=2 profile=strict gate_up_lora_a=-9223372036854775808x1x9223372036854775807x8 "
      "gate_up_lora_b=1x2x8x4 "
      "down_lora_a=1x2x4x4 down_lora_b=1x1x8x4");
  const auto smaller = smaller_cases(std::get<Case>(parsed));
  EXPECT_FALSE(smaller.empty());
  for (const Case& c : smaller) EXPECT_NE(c, std::get<Case>(parsed));
}

TEST(Shrinking, EndsInTheSmallestCaseThatStillFails) {
  const Case big = std::get<Case>(
      parse_case("forward T=9 n=3 H=21 F=10 R=7 S=3 layout=per_expert w13=contiguous type=f16 ranks=7,2,5 "
                 "slots=0,2,1,-1,2,0,1,1,2 fill=dense seed=99"));
  const auto fails = [](const Case& c) {
    const auto& f = std::get<ForwardCase>(c);
    return f.layer.d.H >= 3 && f.T() >= 1 && f.layer.d.R >= 2;
  };
  ASSERT_TRUE(fails(big)) << print_case(big);
  const auto small = std::get<ForwardCase>(shrink_case(big, fails, 2000));
  EXPECT_EQ(small.layer.d, (Dimensions{1, 3, 1, 2, 1}));
  EXPECT_EQ(small.T(), 1);
}

}  // namespace
}  // namespace sinktrap
