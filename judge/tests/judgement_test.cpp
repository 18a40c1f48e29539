// The whole judgement on outputs made to be right or wrong in one place: what must pass passes, what must
// fail fails.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases/random.hpp"
#include "contract/verdict.hpp"
#include "judge/expectation.hpp"
#include "judge/hostile.hpp"
#include "reference/power.hpp"

namespace sinktrap {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr sinktrap_declaration kNoSeams = {1, 0, SINKTRAP_SILU_RELATIVE, 1};

ForwardCase sample(Fill fill, std::int64_t tokens = 6) {
  ForwardCase c;
  c.layer.d = {.n = 2, .H = 21, .F = 9, .R = 4, .S = 3};
  c.layer.ranks = {4, 2, 0};
  c.layer.fill = fill;
  c.layer.seed = 11;
  for (std::int64_t t = 0; t < tokens; ++t) c.slots.push_back(static_cast<std::int32_t>((t * 5 + 1) % 4) - 1);
  return c;
}

struct Sample {
  ForwardInputs in;
  Expectation expected;
  Tensor right;  // the exact output rounded once
  explicit Sample(const ForwardCase& c) : in(make_inputs(c)), expected(expect(in)) {
    right = Tensor(in.type, {in.T(), in.d.H});
    for (std::int64_t i = 0; i < right.size(); ++i) right.set(i, expected.exact(i, in.d.H));
  }
  Status judged(const Tensor& found) const { return judge_output(in, expected, found, kNoSeams).status; }
  Status with(std::int64_t i, double value) const {
    Tensor t = right;
    t.set(i, value);
    return judged(t);
  }
};

// The next value of the storage type away from zero.
double next_bf16(double v) {
  return v == 0 ? 0x1p-63 : v + std::ldexp(v < 0 ? -1.0 : 1.0, std::ilogb(v) - 7);
}

TEST(Judgement, OfACertifiedCaseEveryWrongElementFails) {
  const Sample s(sample(Fill::lattice));
  ASSERT_TRUE(s.expected.certificate.exact) << s.expected.certificate.why;
  EXPECT_EQ(s.judged(s.right), Status::passed);
  for (std::int64_t i = 0; i < s.right.size(); ++i) {
    const double v = s.right.at(i);
    EXPECT_EQ(s.with(i, next_bf16(v)), Status::failed) << i;  // one ulp over
    EXPECT_EQ(s.with(i, NAN), Status::failed) << i;
    EXPECT_EQ(s.with(i, kInf), Status::failed) << i;
    EXPECT_EQ(s.with(i, v == 0 ? -0.0 : -v), v == 0 ? Status::passed : Status::failed)
        << i;  // the sign of zero is free
  }
}

TEST(Judgement, OfADenseCaseFourUlpsFailAndTheRoundedValuePasses) {
  const Sample s(sample(Fill::dense));
  ASSERT_FALSE(s.expected.certificate.exact);
  EXPECT_EQ(s.judged(s.right), Status::passed);
  for (std::int64_t i = 0; i < s.right.size(); ++i) {
    const double v = s.right.at(i), ulp = std::max(std::fabs(next_bf16(v) - v), 0x1p-12);
    // A bf16 output kept in f32 up to the store errs by half an ulp, and by f32 arithmetic where it nearly
    // cancels.
    EXPECT_EQ(s.with(i, v + 4 * ulp), Status::failed) << i;
    EXPECT_EQ(s.with(i, NAN), Status::failed) << i;
    EXPECT_EQ(s.with(i, -kInf), Status::failed) << i;
  }
}

TEST(Judgement, UnwrittenPoisonAndAWrongShapeFail) {
  for (const Fill fill : {Fill::lattice, Fill::dense}) {
    const Sample s(sample(fill));
    Tensor poison = s.right;
    for (std::int64_t i = 0; i < poison.size(); ++i) poison.set(i, NAN);
    EXPECT_EQ(s.judged(poison), Status::failed);
    Tensor one = s.right;  // one row never written
    for (std::int64_t h = 0; h < s.in.d.H; ++h) one.set(2 * s.in.d.H + h, NAN);
    EXPECT_EQ(s.judged(one), Status::failed);
    EXPECT_EQ(s.judged(Tensor(s.in.type, {s.in.T() - 1, s.in.d.H})), Status::failed);
    EXPECT_EQ(s.judged(Tensor(s.in.type, {s.in.T(), s.in.d.H + 1})), Status::failed);
  }
}

// A batch whose rows repeat is judged row by row against the distinct ones: each position counts.
TEST(Judgement, OfALargeBatchOneElementOfAHundredThousandFails) {
  for (const Fill fill : {Fill::lattice, Fill::dense}) {
    const Sample s(sample(fill, 5000));
    ASSERT_FALSE(s.expected.rows.whole);
    EXPECT_LE(s.expected.rows.x.extent(0), kDistinctFrom + 4);
    EXPECT_EQ(s.judged(s.right), Status::passed);
    Random random(3);
    for (int k = 0; k < 20; ++k) {
      const std::int64_t i = random.between(0, static_cast<std::int32_t>(s.right.size() - 1));
      EXPECT_EQ(s.with(i, s.right.at(i) + 1 + std::fabs(s.right.at(i))), Status::failed) << i;
    }
    // Two rows exchanged: right values at wrong places.
    Tensor swapped = s.right;
    std::int64_t a = 4000, b = 4001;
    while (s.expected.rows.row_of[static_cast<std::size_t>(a)] ==
           s.expected.rows.row_of[static_cast<std::size_t>(b)])
      ++b;
    for (std::int64_t h = 0; h < s.in.d.H; ++h) {
      swapped.set(a * s.in.d.H + h, s.right.at(b * s.in.d.H + h));
      swapped.set(b * s.in.d.H + h, s.right.at(a * s.in.d.H + h));
    }
    EXPECT_EQ(s.judged(swapped), Status::failed);
    EXPECT_EQ(s.judged(Tensor(s.in.type, {s.in.T() - 1, s.in.d.H})), Status::failed);
  }
}

TEST(Judgement, NamesTheStageThatTheBoundComesFrom) {
  const Sample s(sample(Fill::dense));
  EXPECT_EQ(judge_output(s.in, s.expected, s.right, kNoSeams).bound_stage, "out");
  const sinktrap_declaration act = {1, SINKTRAP_SEAM(ACT), SINKTRAP_SILU_RELATIVE, 1};
  const Judgement j = judge_output(s.in, s.expected, s.right, act);
  EXPECT_TRUE(j.bound_stage == "act" || j.bound_stage == "out") << j.bound_stage;
  const Judgement copy = Judgement::from_bytes(j.to_bytes()).value();
  EXPECT_EQ(copy.bound_stage, j.bound_stage);
  EXPECT_EQ(copy.kinds_seen, j.kinds_seen);
  EXPECT_EQ(copy.kinds_vacuous, j.kinds_vacuous);
}

// One token through one feature, by hand: x = 8 and a bridge of 8 make gate and up 10, act is about 100, and
// the down delta takes all but 1/256 of the base output away again. What is rounded before that subtraction
// loses more than the whole rounding of the output, so that the bound comes from whichever seam is declared.
ForwardInputs cancelling(Element type, std::vector<double> x = {8}) {
  ForwardCase c;
  c.layer.d = {.n = 1, .H = 1, .F = 1, .R = 1, .S = 1};
  c.layer.type = c.layer.gammas = type;
  c.layer.ranks = {1};
  c.layer.fill = Fill::zero;
  c.slots.assign(x.size(), 0);
  ForwardInputs in = make_inputs(c);
  const auto fill = [](Tensor& t, double v) {
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, v);
  };
  for (std::size_t t = 0; t < x.size(); ++t) in.x.set(static_cast<std::int64_t>(t), x[t]);
  for (Tensor* t : {&in.gammas, &in.w13, &in.w2, &in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A],
                    &in.pool[SINKTRAP_BUFFER_DOWN_LORA_A]})
    fill(*t, 1);
  fill(in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], 0.25);
  fill(in.pool[SINKTRAP_BUFFER_DOWN_LORA_B], -255.0 / 256);
  return in;
}
std::string stage_of(const ForwardInputs& in, const sinktrap_declaration& declared, std::int64_t t = 0) {
  return bound_stage(problem_of(in), t, 0, declared, false);
}

TEST(BoundStage, IsTheSeamThatIsRounded) {
  const ForwardInputs in = cancelling(Element::bf16);
  for (int k = 0; k < SINKTRAP_SEAM_COUNT; ++k) {
    const sinktrap_declaration one = {1, 1u << k, SINKTRAP_SILU_RELATIVE, 1};
    EXPECT_EQ(stage_of(in, one), seams_to_text(1u << k));
  }
}

TEST(BoundStage, IsTheOutputsRoundingWhereNothingElseIsRounded) {
  // Errors of f32 sums of about 100 are left in an output of 0.4, which itself is rounded less coarsely.
  EXPECT_EQ(stage_of(cancelling(Element::f32), kNoSeams), "sums");
  ForwardInputs half_left = cancelling(Element::bf16);
  half_left.pool[SINKTRAP_BUFFER_DOWN_LORA_B].set(0, -0.5);
  EXPECT_EQ(stage_of(half_left, kNoSeams), "out");
}

TEST(BoundStage, OfUndeclaredSeamsIsThatOfAll) {
  const ForwardInputs in = cancelling(Element::bf16);
  const sinktrap_declaration none_declared = {0, 0, SINKTRAP_SILU_RELATIVE, 1},
                             all = {1, SINKTRAP_ALL_SEAMS, SINKTRAP_SILU_RELATIVE, 1};
  EXPECT_EQ(stage_of(in, none_declared), stage_of(in, all));
  EXPECT_NE(stage_of(in, none_declared), "out");
}

TEST(BoundStage, IsThatOfTheTokenAndEmptyWithoutABound) {
  const double huge = std::ldexp(1.0, 100);  // squared, it leaves the finite range
  const ForwardInputs in = cancelling(Element::bf16, {huge, 8});
  const sinktrap_declaration act = {1, SINKTRAP_SEAM(ACT), SINKTRAP_SILU_RELATIVE, 1};
  EXPECT_EQ(stage_of(in, act, 0), "");
  EXPECT_EQ(stage_of(in, act, 1), "act");
}

TEST(Power, ACaseIsVacuousForWhatItCannotShow) {
  const auto bit = [](reference::FaultKind k) { return 1u << static_cast<int>(k); };
  using reference::FaultKind;
  const Sample s(sample(Fill::lattice));
  const Judgement j = judge_output(s.in, s.expected, s.right, kNoSeams);
  EXPECT_EQ(j.status, Status::passed);
  EXPECT_TRUE(j.kinds_seen & bit(FaultKind::missing_delta));
  EXPECT_TRUE(j.kinds_seen & bit(FaultKind::missing_gamma));
  EXPECT_EQ(j.kinds_seen & j.kinds_vacuous, 0u);

  // A pool rank that no adapter fills: its last column holds nothing.
  ForwardCase tail = sample(Fill::lattice);
  tail.layer.ranks = {2, 1, 0};
  const Sample t(tail);
  EXPECT_TRUE(judge_output(t.in, t.expected, t.right, kNoSeams).kinds_vacuous &
              bit(FaultKind::lost_rank_column));

  // Without adapted tokens there is no place for the faults of adapters.
  ForwardCase base = sample(Fill::lattice);
  for (std::int32_t& slot : base.slots) slot = -1;
  const Sample b(base);
  const Judgement none = judge_output(b.in, b.expected, b.right, kNoSeams);
  EXPECT_EQ(none.status, Status::passed);
  EXPECT_EQ((none.kinds_seen | none.kinds_vacuous) & bit(FaultKind::missing_delta), 0u);

  // Adapters of rank 0 only: taking them away changes nothing.
  ForwardCase zero = sample(Fill::lattice);
  zero.layer.ranks = {0, 0, 0};
  const Sample z(zero);
  EXPECT_EQ(judge_output(z.in, z.expected, z.right, kNoSeams).status, Status::vacuous);
}

// A delta far below the tolerance of its case: the case passes, but not as a proof of the delta.
TEST(Power, ADeltaWithinTheToleranceMakesADenseCaseVacuous) {
  ForwardCase c = sample(Fill::dense);
  Sample s(c);
  for (const auto buffer : {SINKTRAP_BUFFER_GATE_UP_LORA_B, SINKTRAP_BUFFER_DOWN_LORA_B}) {
    Tensor& t = s.in.pool[static_cast<std::size_t>(buffer)];
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, t.at(i) * 0x1p-20);
  }
  s.expected = expect(s.in);
  for (std::int64_t i = 0; i < s.right.size(); ++i) s.right.set(i, s.expected.exact(i, s.in.d.H));
  const Judgement j = judge_output(s.in, s.expected, s.right, kNoSeams);
  EXPECT_EQ(j.status, Status::vacuous);
  EXPECT_TRUE(j.kinds_vacuous & 1u << static_cast<int>(reference::FaultKind::missing_delta));
}

TEST(Hostile, WantsNanWhereOneLeadsAndNumbersElsewhere) {
  ForwardCase c = sample(Fill::dense);
  c.layer.put = {{Put::What::nan, "x", {1, 3}}};
  const ForwardInputs in = make_inputs(c);
  Tensor right(in.type, {in.T(), in.d.H});
  const std::vector<double> out = reference::forward_f64(problem_of(in), false).out;
  for (std::int64_t i = 0; i < right.size(); ++i) right.set(i, out[static_cast<std::size_t>(i)]);
  EXPECT_EQ(judge_hostile(in, right, kNoSeams).status, Status::passed);
  Tensor lost = right;
  lost.set(1 * in.d.H + 5, 0.5);
  EXPECT_EQ(judge_hostile(in, lost, kNoSeams).status, Status::failed);
  Tensor infinite = right;
  infinite.set(1 * in.d.H + 5, kInf);
  EXPECT_EQ(judge_hostile(in, infinite, kNoSeams).status, Status::failed);
  Tensor leaked = right;
  leaked.set(0, NAN);
  EXPECT_EQ(judge_hostile(in, leaked, kNoSeams).status, Status::failed);
  // Another payload, and the other sign, are the same NaN.
  Tensor payload = right;
  const auto at = static_cast<std::size_t>((1 * in.d.H + 5) * 2);
  payload.bytes()[at] = std::byte{0x93}, payload.bytes()[at + 1] = std::byte{0xff};
  EXPECT_EQ(judge_hostile(in, payload, kNoSeams).status, Status::passed);
}

// f32 storage, outputs below 2^-126: kept or flushed, both are right; anything else is not.
TEST(Hostile, SubnormalResultsMayBeFlushed) {
  ForwardCase c = sample(Fill::dense);
  c.layer.type = c.layer.gammas = Element::f32;
  ForwardInputs in = make_inputs(c);
  for (std::int64_t i = 0; i < in.gammas.size(); ++i) in.gammas.set(i, 0x1p-130);
  const std::vector<double> out = reference::forward_f64(problem_of(in), false).out;
  Tensor kept(in.type, {in.T(), in.d.H}), flushed(in.type, {in.T(), in.d.H}),
      wrong(in.type, {in.T(), in.d.H});
  for (std::int64_t i = 0; i < kept.size(); ++i) {
    kept.set(i, out[static_cast<std::size_t>(i)]);
    wrong.set(i, 0x1p-100);
  }
  EXPECT_EQ(judge_hostile(in, kept, kNoSeams).status, Status::passed);
  EXPECT_EQ(judge_hostile(in, flushed, kNoSeams).status, Status::passed);
  EXPECT_EQ(judge_hostile(in, wrong, kNoSeams).status, Status::failed);
}

}  // namespace
}  // namespace sinktrap
