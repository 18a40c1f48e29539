// A plan uses the whole budget, gives every target the same, and fills every job.
#include "gate/nightly/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sinktrap::nightly {
namespace {

TEST(Plan, SharesSumUpToTheWholeInShortAndLongNights) {
  double part = 0, part_long = 0;
  for (const Share& s : shares()) {
    part += s.part;
    part_long += s.part_long;
    EXPECT_FALSE(s.reason.empty()) << phase_name(s.phase);
  }
  EXPECT_NEAR(part, 1, 1e-12);
  EXPECT_NEAR(part_long, 1, 1e-12);
  EXPECT_EQ(shares().size(), static_cast<std::size_t>(kPhases));
}

TEST(Plan, StepsFollowEachOtherAndEndWithTheBudget) {
  for (const double seconds : {10.0, 120.0, 3600.0, 8 * 3600.0, 1e6}) {
    const Plan plan = make_plan(seconds, 2, 7);
    double at = 0;
    for (int p = 0; p < kPhases; ++p) {
      const Step& step = plan.steps[static_cast<std::size_t>(p)];
      EXPECT_EQ(step.phase, static_cast<Phase>(p));
      EXPECT_NEAR(step.start, at, 1e-6);
      EXPECT_GE(step.seconds, 0);
      at += step.seconds;
    }
    EXPECT_NEAR(at, seconds, 1e-6);
  }
}

TEST(Plan, LimitsOfLongNightsAreForFuzzing) {
  const Plan plan = make_plan(24 * 3600, 2, 7);
  for (const Share& s : shares())
    if (s.most_seconds > 0) {
      EXPECT_LE(plan.step(s.phase).seconds, s.most_seconds);
    }
  EXPECT_GT(plan.step(Phase::fuzzing).seconds, 24 * 3600 * 0.8);
}

TEST(Plan, OnlyALongNightHasTimeForTheGeneralMutants) {
  EXPECT_EQ(make_plan(kLongBudget - 1, 2, 7).step(Phase::mutation).seconds, 0);
  EXPECT_GT(make_plan(kLongBudget, 2, 7).step(Phase::mutation).seconds, 0);
}

TEST(Plan, EveryTargetGetsTheSameAndEveryJobIsFull) {
  for (const int jobs : {1, 2, 3, 7, 8, 16})
    for (const std::size_t targets : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      constexpr double kSeconds = 600;
      const auto pieces = make_pieces(kSeconds, jobs, targets);
      std::vector<double> of_target(targets, 0), of_job(static_cast<std::size_t>(jobs), 0);
      for (const Piece& p : pieces) {
        of_target[p.target] += p.seconds;
        EXPECT_NEAR(p.start, of_job[static_cast<std::size_t>(p.job)], 1e-6) << "a gap or an overlap";
        of_job[static_cast<std::size_t>(p.job)] += p.seconds;
      }
      for (const double t : of_target)
        EXPECT_NEAR(t, kSeconds * jobs / static_cast<double>(targets), 2.0) << jobs;
      for (const double j : of_job)
        EXPECT_NEAR(j, kSeconds, 1e-6) << jobs << " jobs, " << targets << " targets";
    }
}

// With no more jobs than targets, a target that is cut between two jobs never runs on both at once.
TEST(Plan, PiecesOfATargetDoNotOverlap) {
  const auto pieces = make_pieces(60, 3, 7);
  for (const Piece& a : pieces)
    for (const Piece& b : pieces)
      if (&a != &b && a.target == b.target) {
        EXPECT_TRUE(a.start + a.seconds <= b.start + 1e-6 || b.start + b.seconds <= a.start + 1e-6)
            << a.target;
      }
}

TEST(Plan, NoPieceIsTooShortToStartAProcess) {
  for (const double seconds : {5.0, 5.1, 7.3, 60.0})
    for (const int jobs : {2, 3, 5})
      for (const Piece& p : make_pieces(seconds, jobs, 7))
        EXPECT_GE(p.seconds, 0.5 - 1e-9) << seconds << " " << jobs;
}

TEST(Plan, ItsTextNamesEveryPhaseAndTarget) {
  const std::string text = plan_text(make_plan(120, 2, 2), {"fuzz_a", "fuzz_b"});
  for (int p = 0; p < kPhases; ++p)
    EXPECT_NE(text.find(phase_name(static_cast<Phase>(p))), std::string::npos) << text;
  EXPECT_NE(text.find("fuzz_b"), std::string::npos);
}

}  // namespace
}  // namespace sinktrap::nightly
