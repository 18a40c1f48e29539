// The checker is checked: data that must pass, data that must fail.
#include "judge/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sinktrap {
namespace {

Tensor tensor(Element type, const std::vector<double>& values) {
  Tensor t(type, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(CompareExact, PassesEqualValuesAndBothZeros) {
  EXPECT_EQ(compare_exact({1, -2.5, 0.0, 3}, tensor(Element::bf16, {1, -2.5, -0.0, 3}), "out").status,
            Status::passed);
  EXPECT_EQ(compare_exact({0.0}, tensor(Element::f32, {0x1p-65}), "out").status, Status::passed);
}

TEST(CompareExact, FailsOneUlpNanInfinityAndTheWrongShape) {
  EXPECT_EQ(compare_exact({1}, tensor(Element::bf16, {1.0078125}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({1}, tensor(Element::f32, {NAN}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({1}, tensor(Element::f32, {kInf}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({0.0}, tensor(Element::f32, {0x1p-64}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({0.0}, tensor(Element::f32, {NAN}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({1, 1}, tensor(Element::f32, {1}), "out").status, Status::failed);
  EXPECT_EQ(compare_exact({-1}, tensor(Element::f32, {1}), "out").status, Status::failed);
}

TEST(CompareExact, FindsOneElementOfAMillionAndSaysWhere) {
  Tensor t(Element::f32, {1000, 1000});
  t.set(123456, 1);
  const Judgement j = compare_exact(std::vector<double>(1000000, 0.0), t, "out");
  EXPECT_EQ(j.status, Status::failed);
  ASSERT_EQ(j.details.size(), 1u);
  EXPECT_EQ(j.details[0], "out[123,456]: expected 0, found 1");
}

TEST(CompareBits, TellsZerosApartButNotNanPayloads) {
  EXPECT_EQ(compare_bits(tensor(Element::f32, {0.0}), tensor(Element::f32, {-0.0}), "out").status,
            Status::failed);
  Tensor a(Element::bf16, {1}), b(Element::bf16, {1});
  a.bytes()[0] = std::byte{0xc1}, a.bytes()[1] = std::byte{0x7f};
  b.bytes()[0] = std::byte{0xff}, b.bytes()[1] = std::byte{0xff};
  EXPECT_EQ(compare_bits(a, b, "out").status, Status::passed);
  EXPECT_EQ(compare_bits(a, tensor(Element::bf16, {1}), "out").status, Status::failed);
  EXPECT_EQ(compare_bits(tensor(Element::f32, {1}), tensor(Element::bf16, {1}), "out").status,
            Status::failed);
}

TEST(CompareBounded, PassesInsideFailsOutsideAndReportsTheShareUsed) {
  Judgement j = compare_bounded({1, 2}, {0.5, 0.25}, tensor(Element::f32, {1.25, 2}), "out");
  EXPECT_EQ(j.status, Status::passed);
  EXPECT_DOUBLE_EQ(j.bound_use, 0.5);
  j = compare_bounded({1, 2}, {0.5, 0.25}, tensor(Element::f32, {1, 2.375}), "out");
  EXPECT_EQ(j.status, Status::failed);
  EXPECT_DOUBLE_EQ(j.bound_use, 1.5);
  EXPECT_EQ(compare_bounded({1}, {0.5}, tensor(Element::f32, {NAN}), "out").status, Status::failed);
  EXPECT_EQ(compare_bounded({1}, {0.5}, tensor(Element::f32, {kInf}), "out").status, Status::failed);
  EXPECT_EQ(compare_bounded({1}, {0.0}, tensor(Element::f32, {1}), "out").status, Status::passed);
  EXPECT_EQ(compare_bounded({1, 1}, {0.5}, tensor(Element::f32, {1, 1}), "out").status, Status::failed);
}

TEST(CompareBounded, CountsWhatHasNoFiniteBound) {
  const Judgement j = compare_bounded({1, 2}, {kInf, 0.25}, tensor(Element::f32, {NAN, 2}), "out");
  EXPECT_EQ(j.status, Status::passed);
  EXPECT_EQ(j.unjudged, 1);
}

TEST(Judgement, SurvivesItsWayThroughAPipe) {
  Judgement j;
  j.status = Status::crashed;
  j.reason = "reason\nwith a line";
  j.details = {"a", ""};
  j.bound_use = 0.25;
  j.elements = 7;
  j.unjudged = 3;
  const Judgement k = Judgement::from_bytes(j.to_bytes()).value();
  EXPECT_EQ(k.status, j.status);
  EXPECT_EQ(k.reason, j.reason);
  EXPECT_EQ(k.details, j.details);
  EXPECT_EQ(k.bound_use, j.bound_use);
  EXPECT_EQ(k.elements, j.elements);
  EXPECT_EQ(k.unjudged, j.unjudged);
  const std::string bytes = j.to_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(Judgement::from_bytes(bytes.substr(0, size))) << size;
  EXPECT_FALSE(Judgement::from_bytes(bytes + "x"));
  std::string other = bytes;
  other[0] = static_cast<char>(kStatusCount);  // the status comes first
  EXPECT_FALSE(Judgement::from_bytes(other));
}

}  // namespace
}  // namespace sinktrap
