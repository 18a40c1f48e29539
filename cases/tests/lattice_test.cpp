// The lattice is what it says: certified, equal under every choice of seams, sharded too, and never blind to
// an adapter.
#include <gtest/gtest.h>

#include "cases/tests/lattice_checks.hpp"

namespace sinktrap {
namespace {

using reference::forward_f64;

TEST(Lattice, RandomShapesAreExactAndNotVacuous) {
  Random random(1);
  for (std::uint64_t seed = 0; seed < 3000 && !HasFatalFailure(); ++seed)
    expect_exact(random_case(seed), random);
}

TEST(Lattice, ShardsAreExactAndSumUp) {
  for (std::uint64_t seed = 10000, found = 0; found < 300 && !HasFatalFailure(); ++seed) {
    const ForwardCase c = random_case(seed, 64, 64);
    if (c.tp == 1) continue;
    ++found;
    expect_exact_shards(c);
  }
}

TEST(Lattice, SmallestShapes) {
  Random random(2);
  for (std::uint64_t seed = 0; seed < 2000 && !HasFatalFailure(); ++seed) {
    ForwardCase c = random_case(seed);
    const auto tiny = [&] { return static_cast<std::int64_t>(1 + random.below(2)); };
    c.layer.d = {.n = tiny(), .H = tiny(), .F = tiny(), .R = tiny(), .S = 1};
    c.layer.layout = c.layer.d.n > 1 && random.chance(1, 2) ? ExpertLayout::per_expert : ExpertLayout::shared;
    c.layer.ranks = {c.layer.d.R};
    c.slots = {0};
    if (random.chance(1, 2)) c.slots.push_back(-1);
    c.tp = random.chance(1, 2) ? c.layer.d.F : 1;
    expect_exact(c, random);
    expect_exact_shards(c);
  }
}

// Over a few cases of one shape, negating any single weight shows in the output of some case.
TEST(Lattice, EveryWeightIsObservable) {
  for (ExpertLayout layout : {ExpertLayout::shared, ExpertLayout::per_expert}) {
    ForwardCase c;
    c.layer.d = {.n = 3, .H = 7, .F = 5, .R = 4, .S = 2};
    c.layer.layout = layout;
    c.layer.ranks = {4, 3};
    c.slots = {0, 1, -1, 0, 1, 1, 0, -1};
    std::vector<std::vector<bool>> seen(6);  // of the four buffers, w13, w2
    std::vector<std::vector<bool>> live(6);
    for (c.layer.seed = 0; c.layer.seed < 40; ++c.layer.seed) {
      ForwardInputs in = make_inputs(c);
      const std::vector<double> out = forward_f64(problem_of(in), false).out;
      for (std::size_t tensor = 0; tensor < 6; ++tensor) {
        Tensor& t = tensor < 4 ? in.pool[tensor] : tensor == 4 ? in.w13 : in.w2;
        seen[tensor].resize(static_cast<std::size_t>(t.size()));
        live[tensor].resize(seen[tensor].size());
        for (std::size_t i = 0; i < seen[tensor].size(); ++i) {
          const double v = t.at(static_cast<std::int64_t>(i));
          if (v == 0.0 || seen[tensor][i]) continue;
          live[tensor][i] = true;
          t.set(static_cast<std::int64_t>(i), -v);
          seen[tensor][i] = forward_f64(problem_of(in), false).out != out;
          t.set(static_cast<std::int64_t>(i), v);
        }
      }
    }
    for (std::size_t tensor = 0; tensor < 6; ++tensor) {
      EXPECT_EQ(seen[tensor], live[tensor]) << "tensor " << tensor;
      const auto count = std::count(live[tensor].begin(), live[tensor].end(), true);
      // Three slots of four columns are filled: 7 of 8 elements of a pool buffer, all of the others.
      EXPECT_EQ(8 * count, static_cast<std::int64_t>(live[tensor].size()) * (tensor < 4 ? 7 : 8));
    }
  }
}

// Sizes of the model: sums of magnitudes near what f32 holds, no smaller weights than necessary.
TEST(Lattice, ModelSizeIsExact) {
  Random random(3);
  for (Element type : {Element::bf16, Element::f16, Element::f32}) {
    ForwardCase c;
    c.layer.d = {.n = 2, .H = 6144, .F = 384, .R = 32, .S = 2};
    c.layer.type = c.layer.gammas = type;
    c.layer.ranks = {32, 16};
    c.slots = {0, 1, -1, 0, 0, 1, 1, 0, 1};
    expect_exact(c, random);
  }
}

}  // namespace
}  // namespace sinktrap
