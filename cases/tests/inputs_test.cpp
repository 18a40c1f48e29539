#include "cases/inputs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "cases/fill.hpp"
#include "cases/fill_store.hpp"
#include "cases/random.hpp"

namespace sinktrap {
namespace {

ForwardCase small_case(Fill fill, Element type = Element::bf16) {
  ForwardCase c;
  c.layer.d = {.n = 2, .H = 6, .F = 5, .R = 4, .S = 3};
  c.layer.type = c.layer.gammas = type;
  c.layer.ranks = {4, 0, 2};
  c.layer.fill = fill;
  c.layer.seed = 7;
  c.slots = {0, -1, 2, 1, 0, 2, -1};
  return c;
}

std::uint64_t hash_of(const ForwardInputs& in) {  // FNV-1a
  std::uint64_t h = 0xcbf29ce484222325;
  const auto add = [&h](const Tensor& t) {
    for (std::byte b : t.bytes()) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
  };
  for (const Tensor& t : in.pool) add(t);
  for (const Tensor* t : {&in.w13, &in.w2, &in.x, &in.gammas, &in.token_slot}) add(*t);
  return h;
}

TEST(Random, KnownSequence) {
  Random r(1, 2);
  const std::uint64_t first = r.next(), second = r.next();
  Random again(1, 2);
  EXPECT_EQ(again.next(), first);
  EXPECT_EQ(again.next(), second);
  EXPECT_NE(Random(1, 3).next(), first);
  EXPECT_NE(Random(2, 2).next(), first);
}

TEST(Random, RangesAreHitWholly) {
  Random r(5);
  std::set<std::int32_t> between, magnitude;
  for (int i = 0; i < 2000; ++i) {
    between.insert(r.between(-3, 4));
    magnitude.insert(r.signed_magnitude(3));
    EXPECT_EQ(std::abs(r.sign()), 1);
    EXPECT_EQ(r.below(1), 0u);
  }
  EXPECT_EQ(between, (std::set<std::int32_t>{-3, -2, -1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(magnitude, (std::set<std::int32_t>{-3, -2, -1, 1, 2, 3}));
}

TEST(Random, NormalHasUnitVariance) {
  Random r(9);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double v = r.normal();
    sum += v;
    squares += v * v;
  }
  // Five standard errors: 1/sqrt(N) for the mean, below sqrt(2/N) for the variance.
  EXPECT_LT(std::fabs(sum / kDraws), 5.0 / std::sqrt(kDraws));
  EXPECT_LT(std::fabs(squares / kDraws - 1.0), 5.0 * std::sqrt(2.0 / kDraws));
}

TEST(Random, ShuffleIsAPermutation) {
  Random r(3);
  std::vector<int> v(50);
  for (int i = 0; i < 50; ++i) v[static_cast<std::size_t>(i)] = i;
  const std::vector<int> before = v;
  r.shuffle(std::span(v));
  EXPECT_NE(v, before);
  EXPECT_EQ(std::set<int>(v.begin(), v.end()).size(), 50u);
}

// The fast store is the general one, on every exponent, around every rounding boundary.
TEST(FastStore, AgreesWithTheContract) {
  Random random(11);
  for (Element type : {Element::bf16, Element::f16, Element::f32}) {
    Tensor fast(type, {1}), general(type, {1});
    for (int i = 0; i < 400000; ++i) {
      auto bits = static_cast<std::uint32_t>(random.next());
      if (i % 2 == 0) bits = (bits & 0xffff0000) + 0x7ffe + (bits & 3);  // near a tie of bf16
      if (i % 4 == 1) bits = (bits & 0xffffe000) + 0x0ffe + (bits & 3);  // near a tie of f16
      if (i % 8 < 4) bits = (bits & 0x80ffffff) | (0x66 + (bits >> 24) % 0x2b) << 23 | (bits & 0x7fffff);
      const float v = std::bit_cast<float>(bits);
      if (std::isnan(v)) continue;
      FastStore(fast).set(0, v);
      general.set(0, v);
      ASSERT_TRUE(fast.same_bits(general)) << element_name(type) << " bits " << std::hex << bits;
    }
  }
}

TEST(Inputs, ShapesFollowTheContract) {
  for (ExpertLayout layout : {ExpertLayout::shared, ExpertLayout::per_expert}) {
    ForwardCase c = small_case(Fill::dense);
    c.layer.layout = layout;
    c.layer.gammas = Element::f32;
    const std::int64_t outer = layout == ExpertLayout::shared ? 1 : 2;
    const ForwardInputs in = make_inputs(c);
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(in.outer(), outer);
    EXPECT_EQ(in.w13.shape(), (Shape{2, 10, 6}));
    EXPECT_EQ(in.w2.shape(), (Shape{2, 6, 5}));
    EXPECT_EQ(in.pool[0].shape(), (Shape{3, outer, 8, 6}));
    EXPECT_EQ(in.pool[1].shape(), (Shape{3, 2, 10, 4}));
    EXPECT_EQ(in.pool[2].shape(), (Shape{3, 2, 4, 5}));
    EXPECT_EQ(in.pool[3].shape(), (Shape{3, outer, 6, 4}));
    EXPECT_EQ(in.x.shape(), (Shape{7, 6}));
    EXPECT_EQ(in.gammas.shape(), (Shape{7, 2}));
    EXPECT_EQ(in.gammas.type(), Element::f32);
    for (std::int64_t t = 0; t < 7; ++t) EXPECT_EQ(in.token_slot.at(t), c.slots[static_cast<std::size_t>(t)]);
  }
}

// Index by index from the table of CONTRACT.md section 1, not through for_rank_runs.
TEST(Inputs, RankTailsAreZeroAndTheRestIsNot) {
  for (Fill fill : {Fill::dense, Fill::lattice}) {
    ForwardCase c = small_case(fill);
    c.layer.layout = ExpertLayout::per_expert;
    const ForwardInputs in = make_inputs(c);
    std::array<int, 4> nonzero{}, live{};
    const auto look = [&](int b, std::int64_t i, bool inside) {
      const double v = in.pool[static_cast<std::size_t>(b)].at(i);
      if (!inside) {
        EXPECT_EQ(v, 0.0) << b << " " << i;
        return;
      }
      ++live[static_cast<std::size_t>(b)];
      if (v != 0.0) ++nonzero[static_cast<std::size_t>(b)];
    };
    for (std::int64_t s = 0; s < 3; ++s) {
      const std::int64_t r = c.layer.ranks[static_cast<std::size_t>(s)];
      for (std::int64_t e = 0; e < 2; ++e) {
        const std::int64_t se = s * 2 + e;
        for (std::int64_t q = 0; q < 8; ++q)
          for (std::int64_t h = 0; h < 6; ++h) look(0, (se * 8 + q) * 6 + h, q % 4 < r);
        for (std::int64_t j = 0; j < 10; ++j)
          for (std::int64_t q = 0; q < 4; ++q) look(1, (se * 10 + j) * 4 + q, q < r);
        for (std::int64_t q = 0; q < 4; ++q)
          for (std::int64_t j = 0; j < 5; ++j) look(2, (se * 4 + q) * 5 + j, q < r);
        for (std::int64_t h = 0; h < 6; ++h)
          for (std::int64_t q = 0; q < 4; ++q) look(3, (se * 6 + h) * 4 + q, q < r);
      }
    }
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_GT(live[b], 0);
      EXPECT_GE(2 * nonzero[b], live[b]) << "buffer " << b << " is mostly zero";
    }
  }
}

TEST(Inputs, ZeroFillIsZeroButForTheSlots) {
  const ForwardInputs in = make_inputs(small_case(Fill::zero));
  for (const Tensor* t :
       {&in.w13, &in.w2, &in.x, &in.gammas, &in.pool[0], &in.pool[1], &in.pool[2], &in.pool[3]})
    for (double v : t->values()) EXPECT_EQ(v, 0.0);
  EXPECT_EQ(in.token_slot.at(2), 2.0);
}

TEST(Inputs, SubnormalAndHugeReachTheirRange) {
  for (Element type : {Element::bf16, Element::f16, Element::f32}) {
    const double smallest = std::ldexp(1.0, float_format(type).min_exponent);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      for (Fill fill : {Fill::subnormal, Fill::huge}) {
        ForwardCase c = small_case(fill, type);
        c.layer.seed = seed;
        const ForwardInputs in = make_inputs(c);
        int reached = 0, sign_positive = 0;
        for (const Tensor* t : {&in.w13, &in.w2, &in.x, &in.pool[0], &in.pool[1], &in.pool[2], &in.pool[3]})
          for (double v : t->values()) {
            ASSERT_TRUE(std::isfinite(v));
            const double a = std::fabs(v);
            const bool hit = fill == Fill::huge ? a >= largest_finite(type) / 2 : a > 0 && a < smallest;
            reached += hit;
            sign_positive += hit && v > 0;
          }
        EXPECT_GT(reached, 5) << element_name(type) << " seed " << seed;
        EXPECT_GT(sign_positive, 0);
        EXPECT_LT(sign_positive, reached);
      }
    }
  }
}

TEST(Inputs, DenseGatesAreOfOrderOne) {
  ForwardCase c = small_case(Fill::dense);
  c.layer.d = {.n = 2, .H = 96, .F = 40, .R = 8, .S = 1};
  c.layer.ranks = {8};
  c.slots.assign(16, 0);
  const ForwardInputs in = make_inputs(c);
  double squares = 0;
  const std::vector<double> w = in.w13.values(), x = in.x.values();
  for (std::size_t t = 0; t < 16; ++t)
    for (std::size_t j = 0; j < 160; ++j) {
      double g = 0;
      for (std::size_t h = 0; h < 96; ++h) g += w[j * 96 + h] * x[t * 96 + h];
      squares += g * g;
    }
  const double rms = std::sqrt(squares / (16 * 160));
  EXPECT_GT(rms, 0.5);
  EXPECT_LT(rms, 2.0);
  for (double g : in.gammas.values()) {
    EXPECT_GE(g, 0.5);
    EXPECT_LE(g, 1.5);
  }
}

TEST(Inputs, GateAndUpOfTheAdapterDiffer) {
  for (Fill fill : {Fill::dense, Fill::lattice}) {
    const Tensor a = make_inputs(small_case(fill)).pool[0];  // [3, 1, 8, 6]
    int different = 0;
    for (std::int64_t i = 0; i < 24; ++i) different += a.at(i) != a.at(24 + i);
    EXPECT_GT(different, 12);
  }
}

TEST(Put, SetsExactlyTheNamedElement) {
  ForwardCase c = small_case(Fill::dense);
  const ForwardInputs plain = make_inputs(c);
  c.layer.put = {{Put::What::nan, "x", {2, 3}},
                 {Put::What::inf, "w13", {1, 9, 5}},
                 {Put::What::minus_inf, "down_lora_b", {2, 0, 5, 1}},
                 {Put::What::huge, "gammas", {6, 1}}};
  const ForwardInputs in = make_inputs(c);
  EXPECT_TRUE(std::isnan(in.x.at(2 * 6 + 3)));
  EXPECT_EQ(in.w13.at((1 * 10 + 9) * 6 + 5), HUGE_VAL);
  EXPECT_EQ(in.pool[3].at((2 * 6 + 5) * 4 + 1), -HUGE_VAL);
  EXPECT_EQ(in.gammas.at(6 * 2 + 1), 0x1.fep127);
  EXPECT_TRUE(in.w2.same_bits(plain.w2));
  int changed = 0;
  for (std::int64_t i = 0; i < plain.x.size(); ++i) changed += !(in.x.at(i) == plain.x.at(i));
  EXPECT_EQ(changed, 1);
}

TEST(Put, RefusesWhatItCannotPlace) {
  for (const Put& put :
       {Put{Put::What::nan, "out", {0, 0}}, Put{Put::What::nan, "x", {0}}, Put{Put::What::nan, "x", {0, 6}},
        Put{Put::What::nan, "x", {-1, 0}}, Put{Put::What::nan, "w13", {0, 0, 0, 0}}}) {
    ForwardCase c = small_case(Fill::dense);
    c.layer.put = {put};
    EXPECT_THROW(make_inputs(c), std::invalid_argument) << put.tensor;
  }
}

// Recorded once: a change of compiler, of flags or of the generator that alters any bit shows here. When the
// contents are changed on purpose, corpus entries change their meaning too.
TEST(Inputs, SameBytesEverywhere) {
  struct Known {
    Fill fill;
    Element type;
    ExpertLayout layout;
    std::uint64_t hash;
  };
  constexpr ExpertLayout kShared = ExpertLayout::shared, kPerExpert = ExpertLayout::per_expert;
  for (const Known& k : {Known{Fill::lattice, Element::bf16, kShared, 0x52a9e9c5ec020311},
                         Known{Fill::lattice, Element::bf16, kPerExpert, 0x083c00eab229b4e4},
                         Known{Fill::lattice, Element::f16, kShared, 0x0b4ecb94ee8a17b8},
                         Known{Fill::lattice, Element::f32, kPerExpert, 0xd302cc914a83d2c4},
                         Known{Fill::dense, Element::bf16, kShared, 0x1e3b209d3cd7d075},
                         Known{Fill::dense, Element::f16, kPerExpert, 0x9df9dd09df7a1e65},
                         Known{Fill::dense, Element::f32, kShared, 0xe320e41dc8f41795},
                         Known{Fill::subnormal, Element::f16, kShared, 0x13c03cd645cdd727},
                         Known{Fill::huge, Element::bf16, kPerExpert, 0x1192c969d6f8f5fb}}) {
    ForwardCase c = small_case(k.fill, k.type);
    c.layer.layout = k.layout;
    EXPECT_EQ(hash_of(make_inputs(c)), k.hash) << element_name(k.type) << " fill " << static_cast<int>(k.fill)
                                               << " found 0x" << std::hex << hash_of(make_inputs(c));
    EXPECT_EQ(hash_of(make_inputs(c)), hash_of(make_inputs(c)));
    const std::uint64_t before = hash_of(make_inputs(c));
    c.layer.seed += 1;
    EXPECT_NE(hash_of(make_inputs(c)), before);
  }
}

// With one expert the two layouts are one.
TEST(Inputs, OneExpertIsShared) {
  ForwardCase c = small_case(Fill::lattice);
  c.layer.d.n = 1;
  const std::uint64_t shared = hash_of(make_inputs(c));
  c.layer.layout = ExpertLayout::per_expert;
  EXPECT_EQ(make_inputs(c).outer(), 1);
  EXPECT_EQ(hash_of(make_inputs(c)), shared);
}

// The same numbers whatever the layout of w13: only its rows move.
TEST(Inputs, ContiguousRowsAreTheInterleavedOnes) {
  ForwardCase c = small_case(Fill::lattice);
  const ForwardInputs interleaved = make_inputs(c);
  c.layer.w13 = SINKTRAP_W13_CONTIGUOUS;
  const ForwardInputs contiguous = make_inputs(c);
  for (std::int64_t e = 0; e < 2; ++e)
    for (std::int64_t half = 0; half < 2; ++half)
      for (std::int64_t j = 0; j < 5; ++j)
        for (std::int64_t h = 0; h < 6; ++h)
          EXPECT_EQ(contiguous.w13.at((e * 10 + half * 5 + j) * 6 + h),
                    interleaved.w13.at((e * 10 + 2 * j + half) * 6 + h));
  EXPECT_TRUE(contiguous.w2.same_bits(interleaved.w2));
}

TEST(Inputs, RefusesInconsistentCases) {
  const auto refused = [](auto change) {
    ForwardCase c = small_case(Fill::dense);
    change(c);
    EXPECT_THROW(make_inputs(c), std::invalid_argument);
  };
  refused([](ForwardCase& c) { c.layer.ranks.pop_back(); });
  refused([](ForwardCase& c) { c.layer.ranks[0] = 5; });
  refused([](ForwardCase& c) { c.layer.ranks[0] = -1; });
  refused([](ForwardCase& c) { c.slots[0] = 3; });
  refused([](ForwardCase& c) { c.slots[0] = -2; });
  refused([](ForwardCase& c) { c.tp = 2; });
  refused([](ForwardCase& c) { c.layer.d.H = 0; });
  refused([](ForwardCase& c) { c.layer.d.H = std::int64_t{1} << 62; });
  refused([](ForwardCase& c) { c.layer.d.H = c.layer.d.F = INT32_MAX; });
  refused([](ForwardCase& c) { c.layer.type = Element::i32; });
  refused([](ForwardCase& c) { c.layer.gammas = Element::f16; });
}

TEST(Inputs, NoTokens) {
  for (Fill fill : {Fill::lattice, Fill::dense, Fill::zero, Fill::subnormal, Fill::huge}) {
    ForwardCase c = small_case(fill);
    c.slots.clear();
    const ForwardInputs in = make_inputs(c);
    EXPECT_EQ(in.T(), 0);
    EXPECT_EQ(in.x.size(), 0);
    EXPECT_EQ(in.gammas.size(), 0);
    EXPECT_EQ(in.token_slot.view().data, nullptr);
    EXPECT_EQ(in.w13.size(), 2 * 10 * 6);
  }
}

TEST(Adapter, ShapesAndContents) {
  for (Factors factors : {Factors::stacked, Factors::separate, Factors::per_expert}) {
    PackCase c;
    c.layer = small_case(Fill::dense).layer;
    c.factors = factors;
    c.r = 3;
    c.tp = 2;
    c.tp_rank = 1;
    c.scaling = 0.5;
    const AdapterFactors a = make_adapter(c);
    const std::int64_t copies = factors == Factors::per_expert ? 2 : 1;
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(a.gate_a.shape(), (Shape{copies * 3, 6}));
    EXPECT_EQ(a.stacked, factors == Factors::stacked);
    if (!a.stacked) {
      EXPECT_EQ(a.up_a.shape(), a.gate_a.shape());
      EXPECT_FALSE(a.up_a.same_bits(a.gate_a));
    }
    EXPECT_EQ(a.gate_up_b.shape(), (Shape{40, 3}));
    EXPECT_EQ(a.down_a.shape(), (Shape{3, 20}));
    EXPECT_EQ(a.down_b.shape(), (Shape{copies * 6, 3}));
    EXPECT_EQ(a.scaling, 0.5f);
    for (const Tensor* t : {&a.gate_a, &a.gate_up_b, &a.down_a, &a.down_b}) {
      int nonzero = 0;
      for (double v : t->values()) nonzero += v != 0.0;
      EXPECT_GT(2 * nonzero, t->size());
    }
    c.r = 0;
    EXPECT_EQ(make_adapter(c).gate_up_b.size(), 0);
    c.r = 9;  // beyond R: load has to refuse it, so it must be possible to build
    EXPECT_EQ(make_adapter(c).down_a.extent(0), 9);
    c.tp = INT64_MAX;
    EXPECT_THROW(make_adapter(c), std::invalid_argument);
  }
}

}  // namespace
}  // namespace sinktrap
