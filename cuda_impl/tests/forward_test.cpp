// The forward pass against values computed by hand, and what must not depend on neighbours, launches or
// schedules.
#include <cmath>
#include <limits>

#include "cuda_impl/tests/examples.hpp"

namespace sinktrap::cuda_impl {
namespace {

TEST(Forward, BaseModelByHand) {
  Example e(false);
  EXPECT_EQ(e.run(-1), (Values{-117, 566})) << "before the first bind";
  ASSERT_EQ(e.layer.bind().code, SINKTRAP_OK);
  EXPECT_EQ(e.run(-1), (Values{-117, 566}));
}

TEST(Forward, SharedOuterByHand) {
  // bridges 1 and 40; expert 0: gate 45, up 22, act 495; expert 1: gate 79, up 11, act 1738.
  // base (-1243, 6204); down bridge 990 + 1738; delta (1364, -2728).
  Example e(false);
  ASSERT_EQ(e.layer.bind().code, SINKTRAP_OK);
  EXPECT_EQ(e.run(0), (Values{121, 3476}));
}

TEST(Forward, PerExpertByHand) {
  // expert 1: bridges 2 and 40, gate 78, up 11, act 1716. base (-1221, 6138); bridges 990 and 1716;
  // deltas (495, -990) and (1716, 3432).
  for (std::int32_t w13 : {SINKTRAP_W13_INTERLEAVED, SINKTRAP_W13_CONTIGUOUS}) {
    Example e(true, "", w13);
    ASSERT_EQ(e.layer.bind().code, SINKTRAP_OK);
    EXPECT_EQ(e.run(0), (Values{990, 8580}));
  }
}

TEST(Forward, SixteenBitStorageRoundsOnce) {
  // The same values: 121 and 3476 need 7 and 10 significant bits. bf16 keeps 8: 3476 = 13.578 * 256 -> 3472.
  Example bf16(false, "", SINKTRAP_W13_INTERLEAVED, Element::bf16),
      f16(false, "", SINKTRAP_W13_INTERLEAVED, Element::f16);
  ASSERT_EQ(bf16.layer.bind().code, SINKTRAP_OK);
  ASSERT_EQ(f16.layer.bind().code, SINKTRAP_OK);
  EXPECT_EQ(bf16.run(0), (Values{121, 3472}));
  EXPECT_EQ(f16.run(0), (Values{121, 3476}));
  bf16.gammas = HostTensor(Element::f32, {1, 2}, {0.5, 2});
  EXPECT_EQ(bf16.run(0), (Values{121, 3472})) << "f32 gammas";
}

TEST(Forward, W13LayoutsPlaceFeaturesDifferently) {
  // F 2, x 1: gates 50 and 60, ups 2 and 3: act 100 and 180, out = 100 + 10 * 180.
  const Values interleaved{50, 2, 60, 3}, contiguous{50, 60, 2, 3};
  for (std::int32_t w13 : {SINKTRAP_W13_INTERLEAVED, SINKTRAP_W13_CONTIGUOUS}) {
    Layer layer(Element::f32, 1, 1, 2, "", w13);
    layer.w13.put(w13 == SINKTRAP_W13_INTERLEAVED ? interleaved : contiguous);
    layer.w2.put({1, 10});
    HostTensor x(Element::f32, {1, 1}, {1}), gammas(Element::f32, {1, 1}, {1}), out(Element::f32, {1, 1});
    ASSERT_EQ(layer.forward(x, gammas, {-1}, out).code, SINKTRAP_OK);
    EXPECT_EQ(out.at(0), 1900);
  }
}

TEST(Forward, SeamsRoundWhereTheyAreChosen) {
  const struct {
    const char* options;
    double out;
  } rows[] = {{"", 0.25},           {"seams=none", 0.25},          {"seams=act", 0},
              {"seams=product", 0}, {"seams=base_y+y+silu", 0.25}, {"seams=all&schedule=3", 0}};
  for (const auto& row : rows) EXPECT_EQ(Cancelling(row.options).run(), row.out) << row.options;
}

TEST(Forward, ARowDoesNotDependOnItsBatch) {
  for (bool per_expert : {false, true}) {
    Batch batch(Element::bf16, per_expert);
    const Values all = batch.run();
    for (std::int64_t t = 0; t < Batch::kT; ++t) EXPECT_EQ(batch.alone(t), row_of(all, t)) << t;
  }
}

TEST(Forward, SchedulesDoNotChangeABit) {
  const Values expected = Batch(Element::f32, true).run();
  for (int seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(Batch(Element::f32, true, ("schedule=" + std::to_string(seed)).c_str()).run(), expected);
}

TEST(Forward, NanStaysInItsTokenAndItsSlot) {
  for (bool per_expert : {false, true}) {
    Batch batch(Element::f16, per_expert);
    const Values before = batch.run();
    batch.poison(std::numeric_limits<double>::quiet_NaN());
    const Values after = batch.run();
    for (std::int64_t t = 0; t < Batch::kT; ++t) {
      for (std::int64_t h = 0; h < 7; ++h) {
        const auto at = static_cast<std::size_t>(t * 7 + h);
        if (batch.is_poisoned(t))
          EXPECT_TRUE(std::isnan(after[at])) << t;
        else
          EXPECT_EQ(after[at], before[at]) << t;
      }
    }
  }
}

TEST(Forward, MoreTokensThanScratchHoldsAtOnce) {
  // Packed x alone needs 32 bytes for each of 8192 hidden elements and 8 tokens: 64 MiB end before 2048
  // tokens.
  constexpr std::int64_t kT = 2500, kH = 8192;
  Layer layer(Element::bf16, 1, kH, 1);
  layer.w13.fill(0), layer.w2.fill(1);
  layer.w13.set(0, 64);      // gate = 64 * x[0]
  layer.w13.set(kH + 1, 1);  // up = x[1]
  HostTensor x(Element::bf16, {kT, kH}), gammas(Element::bf16, {kT, 1}), out(Element::bf16, {kT, kH});
  gammas.fill(1);
  for (std::int64_t t = 0; t < kT; ++t) x.set(t * kH, 1), x.set(t * kH + 1, static_cast<double>(t % 256));
  ASSERT_EQ(layer.forward(x, gammas, std::vector<std::int32_t>(kT, -1), out).code, SINKTRAP_OK);
  for (std::int64_t t = 0; t < kT; ++t)
    for (std::int64_t h : {std::int64_t{0}, kH - 1})
      ASSERT_EQ(out.at(t * kH + h), 64.0 * static_cast<double>(t % 256)) << t;
}

TEST(Forward, RefusesArgumentsThenRangesThenUnbound) {
  Example e(false);
  Layer& layer = e.layer;
  HostTensor out(Element::f32, {2, 2}, {7, 7, 7, 7}), x(Element::f32, {2, 2}), gammas(Element::f32, {2, 2});
  const auto code = [&](std::vector<std::int32_t> slots) {
    return layer.forward(x, gammas, std::move(slots), out);
  };
  EXPECT_EQ(code({0, -2}), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, -2, 0));
  EXPECT_EQ(code({-1, 5}), verdict_of(SINKTRAP_UNBOUND));
  ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
  EXPECT_EQ(code({0, 1}), verdict_of(SINKTRAP_SLOT_RANGE, -1, -1, 1, 1));
  EXPECT_EQ(code({0}).code, SINKTRAP_ARGUMENT) << "ids for one token of two";
  HostTensor wide(Element::f32, {2, 3}), half(Element::f16, {2, 2});
  EXPECT_EQ(layer.forward(wide, gammas, {0, 0}, out).code, SINKTRAP_ARGUMENT);
  EXPECT_EQ(layer.forward(x, half, {0, 0}, out).code, SINKTRAP_ARGUMENT);
  EXPECT_EQ(layer.forward(x, gammas, {9, 9}, half).code, SINKTRAP_ARGUMENT) << "before the ids";
  EXPECT_EQ(out.values(), (Values{7, 7, 7, 7})) << "nothing was written";
  Verdict v{};
  EXPECT_EQ(layer.table.forward(layer.instance, nullptr, &v), SINKTRAP_ARGUMENT);
}

TEST(Forward, NoTokensNeedNoData) {
  Example e(false);
  std::int64_t two[] = {0, 2}, one[] = {0};
  const auto empty = [](std::int64_t* shape, int ndim, DLDataType type) {
    return DLTensor{nullptr, {kDLCPU, 0}, ndim, type, shape, nullptr, 0};
  };
  DLTensor x = empty(two, 2, {kDLFloat, 32, 1}), ids = empty(one, 1, {kDLInt, 32, 1}), out = x;
  sinktrap_forward_args args{sizeof(sinktrap_forward_args), 0, &x, &x, &ids, &out};
  Verdict v{};
  EXPECT_EQ(e.layer.table.forward(e.layer.instance, &args, &v), SINKTRAP_OK);
  args.struct_size = 0;
  EXPECT_EQ(e.layer.table.forward(e.layer.instance, &args, &v), SINKTRAP_ARGUMENT);
}

}  // namespace
}  // namespace sinktrap::cuda_impl
