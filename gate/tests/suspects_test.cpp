// Primitive suspects and pairs: what no known fault has is named by its parts.
#include "gate/suspects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "contract/tensor.hpp"
#include "gate/finding.hpp"
#include "gate/lineup.hpp"
#include "judge/expectation.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

using Table = sinktrap_implementation_table;

// Three experts: reversed and shifted are not the same.
std::string batch(int seed) {
  return fmt::format(
      "forward T=4 n=3 H=7 F=5 R=3 S=2 layout=per_expert w13=contiguous type=bf16 ranks=3,2 slots=0,1,-1,1 "
      "fill=lattice seed={}",
      seed);
}
ForwardInputs inputs_of(const std::string& line) {
  return make_inputs(std::get<ForwardCase>(std::get<Case>(parse_case(line))));
}

int index_of(const std::string& what) {
  for (std::size_t i = 0; i < primitives().size(); ++i)
    if (primitives()[i].what == what) return static_cast<int>(i);
  ADD_FAILURE() << "no primitive " << what;
  return 0;
}

// A copy of a row-major tensor [rows, width] with the entries of each row in reverse order.
struct Reversed {
  explicit Reversed(const DLTensor& t) : view(t) {
    const Element type = *element_from_dl(t.dtype);
    const std::int64_t rows = t.shape[0], width = t.shape[1];
    bytes.resize(static_cast<std::size_t>(rows * width * element_bytes(type)));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i)
        store_element(type, bytes.data(), r * width + i,
                      load_element(type, first_byte(t), r * width + width - 1 - i));
    view.data = bytes.data();
    view.byte_offset = 0;
    view.strides = nullptr;
  }
  DLTensor view;
  std::vector<std::byte> bytes;
};

// The line-up, without known faults, of the reference with this forward.
Lineup parts_of(decltype(Table::forward) forward) {
  static Table table;
  table = *reference::f64_table();
  table.forward = forward;
  std::vector<FailingCase> failing;
  failing.reserve(12);
  for (int seed = 0; seed < 12; ++seed) failing.push_back({find_law("lattice-is-exact"), batch(seed)});
  return line_up(Implementation::from_table(&table, "wrong", ""), failing, {LineupMode::parts, "", 1});
}

TEST(Suspects, NoneChangesNothing) {
  const ForwardInputs in = inputs_of(batch(3));
  EXPECT_TRUE(output_with(in, {}).same_bits(rounded_output(in, expect(in).stages.out)));
}

TEST(Suspects, EveryWordIsUsedOnceAndEachPlaceHasSome) {
  std::set<std::string> words;
  std::set<Place> seen;
  for (const Primitive& p : primitives()) {
    EXPECT_TRUE(words.insert(p.what).second) << p.what;
    EXPECT_EQ(p.what.find('{'), std::string::npos) << p.what;
    EXPECT_EQ(p.place == Place::inputs, static_cast<bool>(p.edit)) << p.what;
    seen.insert(p.place);
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Suspects, AStageAndItsWeightSufferAlike) {
  const ForwardInputs in = inputs_of(batch(5));
  const int bridge[] = {index_of("gate_up_bridge: the last rank row is missing")};
  const int rows[] = {index_of("gate_up_lora_a: the last rank row is missing")};
  const Tensor found = output_with(in, bridge);
  EXPECT_TRUE(found.same_bits(output_with(in, rows)));
  EXPECT_FALSE(found.same_bits(output_with(in, {})));
}

TEST(Suspects, OneIsNamedByTheLineUp) {
  const Lineup lineup =
      parts_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
        const Reversed gammas(*a->gammas);
        sinktrap_forward_args other = *a;
        other.gammas = &gammas.view;
        return reference::f64_table()->forward(i, &other, v);
      });
  ASSERT_FALSE(lineup.parts.empty());
  EXPECT_EQ(lineup.parts[0].what.find("gammas: experts in reverse order"), 0u) << lineup.parts[0].what;
  EXPECT_EQ(lineup.parts[0].matched, lineup.parts_compared);
  EXPECT_EQ(lineup.stage, "gamma");
  EXPECT_FALSE(lineup_text(lineup).empty());
}

TEST(Suspects, TwoAtOnceAreNamedByTheLineUp) {
  const Lineup lineup =
      parts_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
        const Reversed gammas(*a->gammas), x(*a->x);
        sinktrap_forward_args other = *a;
        other.gammas = &gammas.view;
        other.x = &x.view;
        return reference::f64_table()->forward(i, &other, v);
      });
  ASSERT_FALSE(lineup.parts.empty());
  bool both = false;
  for (const Suspect& s : lineup.parts)
    both = both || (s.what.find("gammas: experts in reverse order") != std::string::npos &&
                    s.what.find("x: hidden columns in reverse order") != std::string::npos);
  EXPECT_TRUE(both) << lineup.parts[0].what;
}

TEST(Suspects, ARightImplementationHasNone) {
  const Lineup lineup = parts_of(reference::f64_table()->forward);
  EXPECT_TRUE(lineup.parts.empty());
  EXPECT_TRUE(lineup.empty()) << lineup.stage;
}

// Candidates 0..3; case by case what is seen of them, and who matches.
TEST(Pairs, AreTriedWhereBothAreSeenAndRefusedWhereOneAloneIsWrong) {
  const std::vector<Behaviour> cases = {
      {{true, false, true, false}, {true, false, false, false}},   // 0 alone matches, 2 does not
      {{false, true, true, false}, {false, true, false, false}},   // 1 alone matches
      {{true, true, false, false}, {false, false, false, false}},  // 0 and 1 together: only a trial can tell
  };
  EXPECT_EQ(pairs_worth_trying(cases, 100), (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_TRUE(needs_trial(cases[2], {0, 1}));
  EXPECT_FALSE(needs_trial(cases[0], {0, 1}));
  EXPECT_TRUE(pairs_worth_trying({}, 100).empty());
}

Finding finding(Stage stage, bool weak = false) { return {{stage, {"stage"}}, weak}; }

TEST(Findings, TheFirstCertainOneExplains) {
  EXPECT_FALSE(explaining({}).has_value());
  EXPECT_EQ(explaining({finding(Stage::loading), finding(Stage::binding)}), 1u);
  EXPECT_EQ(explaining({finding(Stage::memory, true), finding(Stage::gamma)}), 1u);
  EXPECT_EQ(explaining({finding(Stage::routing, true)}), 0u);
  // Of the parts of the pass the one that was found most often.
  EXPECT_EQ(explaining({finding(Stage::activation), finding(Stage::down_sum), finding(Stage::down_sum)}), 1u);
}

TEST(Findings, LeaveTheWorkerWhole) {
  Finding f = finding(Stage::gate_up_delta, true);
  f.where.lines.emplace_back("tokens   0 of 3");
  const auto back = Finding::from_judgement(f.to_judgement());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->where.stage, Stage::gate_up_delta);
  EXPECT_TRUE(back->weak);
  EXPECT_EQ(back->where.lines, f.where.lines);
  Judgement crash;
  crash.status = Status::crashed;
  EXPECT_EQ(Finding::from_judgement(crash)->where.stage, Stage::crash);
  EXPECT_FALSE(Finding::from_judgement(Judgement{}).has_value());
}

}  // namespace
}  // namespace sinktrap
