// Validation is complete: over a whole small scope of tuples of shapes it accepts exactly the image
// (CONTRACT.md section 2).
#include <gtest/gtest.h>

#include "layouts.hpp"
#include "reference/image.hpp"
#include "reference/validate.hpp"

namespace sinktrap::reference {
namespace {

// All shapes of one buffer: the product of what each axis may be.
std::vector<Shape> shapes_over(const std::array<std::vector<std::int64_t>, 4>& axes) {
  std::vector<Shape> shapes;
  for (std::int64_t a : axes[0])
    for (std::int64_t b : axes[1])
      for (std::int64_t c : axes[2])
        for (std::int64_t d : axes[3]) shapes.push_back({a, b, c, d});
  return shapes;
}

struct Count {
  std::int64_t tuples = 0, strict = 0, sglang = 0, disagreements = 0;
};

Count count_scope(std::int64_t n) {
  const std::vector<std::int64_t> two = {1, 2}, experts = {0, 1, 2, 3}, twice_rank = {0, 1, 2, 3, 4, 6},
                                  twice_features = {0, 1, 2, 3, 4}, features = {0, 1, 2};
  std::array<std::vector<Shape>, SINKTRAP_BUFFER_COUNT> scope = {
      shapes_over({two, experts, twice_rank, two}), shapes_over({two, experts, twice_features, experts}),
      shapes_over({two, experts, experts, features}), shapes_over({two, experts, two, experts})};

  Count count;
  const ImageOf given{n, SINKTRAP_ANY, SINKTRAP_ANY, 2};
  sinktrap_layout layout = test::valid_layout(n).view();
  Shapes shapes{};
  // The descriptors stay; only where their extents lie changes.
  for (Shape& a : scope[0]) {
    shapes[0] = a;
    layout.buffers[0].shape = a.data();
    for (Shape& b : scope[1]) {
      shapes[1] = b;
      layout.buffers[1].shape = b.data();
      for (Shape& c : scope[2]) {
        shapes[2] = c;
        layout.buffers[2].shape = c.data();
        for (Shape& d : scope[3]) {
          shapes[3] = d;
          layout.buffers[3].shape = d.data();
          const Verdict v = validate(layout, SINKTRAP_PROFILE_STRICT);
          const bool valid = v.code == SINKTRAP_OK;
          ++count.tuples;
          count.strict += valid;
          // Strict stops where the five checks stop, so its code tells what the five say.
          count.sglang += valid || v.code > SINKTRAP_RANK_MISMATCH;
          if (valid != in_image(shapes, given) && count.disagreements++ == 0)
            ADD_FAILURE() << "n = " << n << ", A = " << testing::PrintToString(a)
                          << ", B = " << testing::PrintToString(b)
                          << ", down A = " << testing::PrintToString(c)
                          << ", down B = " << testing::PrintToString(d) << ": " << verdict_to_text(v);
        }
      }
    }
  }
  return count;
}

// 96 * 160 * 96 * 64 tuples for each n. Valid ones: 2 slots, the outer extents (1, and n where it differs), H
// in {1, 2}, R in {1, 2, 3} (2R is 2, 4, 6), F in {1, 2}. Of the five checks only R and the expert axes
// matter: R in {0, 1, 2, 3}, while four slot axes, two H axes, five values of 2F and three of F are free.
class Scope : public testing::TestWithParam<std::int64_t> {};

TEST_P(Scope, StrictIsTheImage) {
  const std::int64_t n = GetParam(), outers = n == 1 ? 1 : 2;
  const Count count = count_scope(n);
  EXPECT_EQ(count.tuples, 94'371'840);
  EXPECT_EQ(count.strict, outers * 2 * 2 * 3 * 2);
  EXPECT_EQ(count.sglang, outers * 4 * 16 * 4 * 5 * 3);
  EXPECT_EQ(count.disagreements, 0);
}
INSTANTIATE_TEST_SUITE_P(Experts, Scope, testing::Values(1, 2, 3));

// Where a byte count passes 2^63, and where the layer's own sizes are known.
TEST(Image, SizesAndTheLayer) {
  const std::int64_t large = INT64_MAX / 80;  // see validate_test: 80 bytes of A for each hidden coordinate
  for (std::int64_t element : {1, 2, 4})
    for (std::int64_t hidden : {large * 2 / element, large * 2 / element + 1}) {
      test::Layout l = test::valid_layout(2, 1, 5, 4, hidden, 3);
      for (auto& b : l.buffers) b.dtype = {kDLFloat, static_cast<std::uint8_t>(8 * element), 1};
      Shapes shapes{};
      for (std::size_t b = 0; b < shapes.size(); ++b)
        std::copy_n(l.buffers[b].shape.begin(), 4, shapes[b].begin());
      const bool fits = validate(l.view(), SINKTRAP_PROFILE_STRICT).code != SINKTRAP_SIZE_OVERFLOW;
      EXPECT_EQ(fits, in_image(shapes, {2, SINKTRAP_ANY, SINKTRAP_ANY, element})) << element << " " << hidden;
      EXPECT_EQ(fits, in_image(shapes, {2, hidden, 3, element}));
      EXPECT_FALSE(in_image(shapes, {2, hidden + 1, 3, element}));
      EXPECT_FALSE(in_image(shapes, {2, hidden, 4, element}));
      EXPECT_FALSE(in_image(shapes, {3, hidden, 3, element}));
    }
  const Shapes wrapping = {{{1, 1, 0, 1}, {1, 1, 2, INT64_MIN}, {1, 1, INT64_MIN, 1}, {1, 1, 1, INT64_MIN}}};
  EXPECT_FALSE(in_image(wrapping, {1, SINKTRAP_ANY, SINKTRAP_ANY, 2}));
}

}  // namespace
}  // namespace sinktrap::reference
