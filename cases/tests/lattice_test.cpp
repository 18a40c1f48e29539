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
    const auto tiny = [&] { return std::int64_t{1} + random.below(2); };
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

// Over 50 cases of one shape, negating any single element of any tensor shows in the output of some case.
TEST(Lattice, EveryElementIsObservable) {
  constexpr std::uint64_t kCases = 50;
  for (ExpertLayout layout : {ExpertLayout::shared, ExpertLayout::per_expert}) {
    ForwardCase c;
    c.layer.d = {.n = 3, .H = 7, .F = 5, .R = 4, .S = 2};
    c.layer.layout = layout;
    c.layer.ranks = {4, 3};
    c.slots = {0, 1, -1, 0, 1, 1, 0, -1};
    std::vector<std::vector<bool>> seen(8);  // of the four buffers, w13, w2, x, gammas
    std::vector<std::vector<bool>> live(8);
    for (c.layer.seed = 0; c.layer.seed < kCases; ++c.layer.seed) {
      ForwardInputs in = make_inputs(c);
      const std::vector<double> out = forward_f64(problem_of(in), false).out;
      Tensor* const tensors[] = {&in.pool[0], &in.pool[1], &in.pool[2], &in.pool[3],
                                 &in.w13,     &in.w2,      &in.x,       &in.gammas};
      for (std::size_t tensor = 0; tensor < seen.size(); ++tensor) {
        Tensor& t = *tensors[tensor];
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
    for (std::size_t tensor = 0; tensor < seen.size(); ++tensor) {
      EXPECT_EQ(seen[tensor], live[tensor]) << "tensor " << tensor;
      const auto count = std::count(live[tensor].begin(), live[tensor].end(), true);
      // Three slots of four columns are filled: 7 of 8 elements of a pool buffer, all of the others.
      EXPECT_EQ(8 * count, static_cast<std::int64_t>(live[tensor].size()) * (tensor < 4 ? 7 : 8));
    }
  }
}

// The certificate is sound: after damage to one value (a low bit, a factor of two, another value's place) a
// case is refused, or the ordered forward is still exact under the seams drawn.
TEST(Lattice, DamagedCasesAreRefusedOrStillExact) {
  Random random(6);
  int refused = 0, certified = 0;
  for (std::uint64_t seed = 300000; seed < 301500; ++seed) {
    const ForwardCase c = random_case(seed, 48, 24);
    if (c.T() == 0) continue;
    ForwardInputs in = make_inputs(c);
    Tensor* const tensors[] = {&in.w13,     &in.w2,      &in.x,       &in.gammas,
                               &in.pool[0], &in.pool[1], &in.pool[2], &in.pool[3]};
    Tensor& t = *tensors[random.below(8)];
    const auto size = static_cast<std::uint32_t>(t.size());
    const std::int64_t i = random.below(size);
    const double v = t.at(i), unit = std::ldexp(1.0, 1 - float_format(t.type()).significant_bits);
    const std::uint32_t kind = random.below(3);
    t.set(i, kind == 0 ? v * (1 + unit) : kind == 1 ? v * 2 : t.at(random.below(size)));
    const reference::Problem p = problem_of(in);
    const reference::Stages stages = forward_f64(p);
    if (!reference::certify(p, stages).exact) {
      ++refused;
      continue;
    }
    ++certified;
    const auto seams = static_cast<std::uint32_t>(random.next()) & SINKTRAP_ALL_SEAMS;
    const std::vector<std::byte> out = reference::forward_ordered(p, seams);
    for (std::size_t k = 0; k < stages.out.size(); ++k)
      ASSERT_EQ(load_element(in.type, out.data(), static_cast<std::int64_t>(k)),
                round_to(in.type, stages.out[k]))
          << describe(c) << " seams " << seams;
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(certified, 100);  // damage to an unused slot, for one, changes nothing
}

// Extents at which weights have to become sparse to stay within the sums that f32 holds.
TEST(Lattice, ExtremeExtentsAreExact) {
  Random random(7);
  const Dimensions extremes[] = {{.n = 1, .H = 600000, .F = 1, .R = 1, .S = 1},
                                 {.n = 16, .H = 3, .F = 8192, .R = 2, .S = 1},
                                 {.n = 2, .H = 5, .F = 3, .R = 20000, .S = 1},
                                 {.n = 300, .H = 4, .F = 2, .R = 3, .S = 2}};
  for (const Dimensions& d : extremes)
    for (Element type : {Element::bf16, Element::f16})
      for (ExpertLayout layout : {ExpertLayout::shared, ExpertLayout::per_expert}) {
        ForwardCase c;
        c.layer.d = d;
        c.layer.type = c.layer.gammas = type;
        c.layer.layout = d.n == 1 ? ExpertLayout::shared : layout;
        c.layer.ranks.assign(static_cast<std::size_t>(d.S), d.R);
        c.slots = {0, -1, 0, 0};
        expect_exact(c, random);
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
