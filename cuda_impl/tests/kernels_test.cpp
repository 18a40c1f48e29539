// The tiled, mma and decode kernels: values by hand, what must not reach a neighbour in the same tile, tails
// of every extent, and what the tables declare. The suites judge them on everything else.
#include <cstring>
#include <limits>

#include "cuda_impl/tests/examples.hpp"

namespace sinktrap::cuda_impl {
namespace {

constexpr Kernel kKernels[] = {Kernel::tiled, Kernel::mma, Kernel::decode};

std::string name(Kernel kernel) { return simt_table(kernel)->name; }

TEST(Kernels, ExamplesByHand) {
  // The values of forward_test.cpp. All seams are exact in f16; only out = 8580 is rounded, to a multiple
  // of 8.
  for (Kernel kernel : kKernels)
    for (std::int32_t w13 : {SINKTRAP_W13_INTERLEAVED, SINKTRAP_W13_CONTIGUOUS})
      for (bool per_expert : {false, true}) {
        Example e(per_expert, "", w13, Element::f16, kernel);
        EXPECT_EQ(e.run(-1), (Values{-117, 566})) << name(kernel) << " before the first bind";
        ASSERT_EQ(e.layer.bind().code, SINKTRAP_OK);
        EXPECT_EQ(e.run(-1), (Values{-117, 566})) << name(kernel);
        EXPECT_EQ(e.run(0), per_expert ? (Values{990, 8576}) : (Values{121, 3476})) << name(kernel);
      }
}

TEST(Kernels, SeamsAreThoseDeclared) {
  // As in forward_test.cpp: 4160.25 - 4160 survives only where act stays in f32.
  for (Kernel kernel : kKernels) {
    Cancelling example("", kernel);
    const double out = example.run();
    const Layer& layer = example.layer;
    sinktrap_declaration d{};
    ASSERT_EQ(layer.table.declare(layer.instance, &d), SINKTRAP_OK);
    EXPECT_EQ(d.seams, layer.table.declaration.seams);
    EXPECT_EQ(out, d.seams & SINKTRAP_SEAM(ACT) ? 0 : 0.25) << name(kernel);
  }
}

TEST(Kernels, ARowDoesNotDependOnItsBatch) {
  for (Kernel kernel : kKernels)
    for (bool per_expert : {false, true}) {
      Batch batch(Element::bf16, per_expert, "", kernel);
      const Values all = batch.run();
      for (std::int64_t t = 0; t < Batch::kT; ++t)
        EXPECT_EQ(batch.alone(t), row_of(all, t)) << name(kernel) << " token " << t;
    }
}

TEST(Kernels, SchedulesDoNotChangeABit) {
  for (Kernel kernel : kKernels) {
    const Values expected = Batch(Element::f16, true, "", kernel).run();
    for (int seed = 1; seed <= 20; ++seed)
      EXPECT_EQ(Batch(Element::f16, true, ("schedule=" + std::to_string(seed)).c_str(), kernel).run(),
                expected)
          << name(kernel) << " schedule " << seed;
  }
}

TEST(Kernels, NanAndInfinityStayInTheirTokenAndTheirSlot) {
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  for (Kernel kernel : kKernels)
    for (bool per_expert : {false, true})
      for (double value : values) {
        Batch batch(Element::f16, per_expert, "", kernel);
        const Values before = batch.run();
        batch.poison(value);
        const Values after = batch.run();
        for (std::int64_t t = 0; t < Batch::kT; ++t) {
          for (std::int64_t h = 0; h < 7; ++h) {
            const auto at = static_cast<std::size_t>(t * 7 + h);
            if (!batch.is_poisoned(t))
              EXPECT_EQ(after[at], before[at]) << name(kernel) << " token " << t;
            else
              EXPECT_FALSE(std::isfinite(after[at])) << name(kernel) << " token " << t;
          }
        }
      }
}

// Gate 64 from x[0]; up from the last column of x: a tail of K that is dropped gives 0. One weight of each
// row of w2, in its last column, makes out = act of the last feature. Extents around vectors of 8, steps of
// 32 and tiles of 32, 64 and 128.
TEST(Kernels, TailsOfEveryExtentCount) {
  for (Kernel kernel : kKernels)
    for (std::int64_t H : {2, 7, 8, 33, 65, 129})
      for (std::int64_t F : {1, 9, 33, 65})
        for (std::int64_t T : {1, 33, 65}) {
          Layer layer(Element::bf16, 1, H, F, "", SINKTRAP_W13_CONTIGUOUS, kernel);
          layer.w13.fill(0), layer.w2.fill(0);
          for (std::int64_t j = 0; j < F; ++j) {
            layer.w13.set(j * H, 1);
            layer.w13.set((F + j) * H + H - 1, 1);
          }
          for (std::int64_t h = 0; h < H; ++h) layer.w2.set(h * F + F - 1, 1);
          HostTensor x(Element::bf16, {T, H}), gammas(Element::bf16, {T, 1}), out(Element::bf16, {T, H});
          gammas.fill(1);
          for (std::int64_t t = 0; t < T; ++t) {
            x.set(t * H, 64);
            x.set(t * H + H - 1, H == 1 ? 64 : static_cast<double>(t + 1));
          }
          ASSERT_EQ(
              layer.forward(x, gammas, std::vector<std::int32_t>(static_cast<std::size_t>(T), -1), out).code,
              SINKTRAP_OK);
          for (std::int64_t t = 0; t < T; ++t)
            for (std::int64_t h : {std::int64_t{0}, H / 2, H - 1})
              ASSERT_EQ(out.at(t * H + h), 64.0 * static_cast<double>(t + 1))
                  << name(kernel) << " T " << T << " H " << H << " F " << F << " token " << t << " h " << h;
        }
}

// 40 tokens of 40 slots, none of them the same as a neighbour's: out = 64 * (slot + 1) through the delta of
// up alone, with a rank that is no multiple of a vector.
TEST(Kernels, EveryTokenOfATileMayHaveItsOwnSlot) {
  constexpr std::int64_t kSlots = 40, kR = 11;
  for (Kernel kernel : kKernels) {
    Layer layer(Element::bf16, 1, 2, 1, "", SINKTRAP_W13_INTERLEAVED, kernel);
    layer.w13.put({1, 0, 0, 0});  // gate = x[0]
    layer.w2.put({1, 1});
    layer.make_pool(kSlots, 1, kR);
    for (HostTensor& t : layer.pool) t.fill(0);
    for (std::int64_t s = 0; s < kSlots; ++s) {
      layer.pool[0].set(((s * 2 + 1) * kR + kR - 1) * 2 + 1, 1);                 // up A, last row: x[1]
      layer.pool[1].set((s * 2 + 1) * kR + kR - 1, static_cast<double>(s + 1));  // up B, last column
    }
    ASSERT_EQ(layer.bind().code, SINKTRAP_OK);
    HostTensor x(Element::bf16, {kSlots, 2}), gammas(Element::bf16, {kSlots, 1}),
        out(Element::bf16, {kSlots, 2});
    gammas.fill(1);
    std::vector<std::int32_t> slots;
    for (std::int64_t t = 0; t < kSlots; ++t) {
      x.set(t * 2, 64), x.set(t * 2 + 1, 1);
      slots.push_back(static_cast<std::int32_t>(kSlots - 1 - t));
    }
    ASSERT_EQ(layer.forward(x, gammas, slots, out).code, SINKTRAP_OK) << layer.table.last_error();
    for (std::int64_t t = 0; t < kSlots; ++t)
      EXPECT_EQ(out.at(t * 2), 64.0 * static_cast<double>(kSlots - t)) << name(kernel) << " token " << t;
  }
}

TEST(Kernels, TablesDeclareWhatTheKernelsCan) {
  const std::uint64_t never = SINKTRAP_CAN_F32 | SINKTRAP_IS_ORDERED | SINKTRAP_CAN_CHOOSE_SEAMS;
  const char* const names[] = {"simt:tiled", "simt:mma", "simt:decode"};
  const std::uint32_t tiles = SINKTRAP_SEAM(GATE_UP_BRIDGE) | SINKTRAP_SEAM(ACT) | SINKTRAP_SEAM(DOWN_BRIDGE);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& table = *simt_table(kKernels[i]);
    EXPECT_STREQ(table.name, names[i]);
    EXPECT_EQ(table.capabilities, simt_ordered_table()->capabilities & ~never);
    EXPECT_EQ(table.declaration.seams, kKernels[i] == Kernel::decode ? 0u : tiles);
    EXPECT_EQ(table.declaration.deterministic, 1);
    HostTensor w13(Element::f32, {1, 2, 1}), w2(Element::f32, {1, 1, 1});
    DLTensor w13_view = w13.view(), w2_view = w2.view();
    sinktrap_layer layer{
        sizeof(sinktrap_layer), SINKTRAP_W13_INTERLEAVED, 1, 1, 1, {kDLFloat, 32, 1}, &w13_view, &w2_view};
    sinktrap_instance* instance = nullptr;
    Verdict v{};
    EXPECT_EQ(table.create(&layer, "", &instance, &v), SINKTRAP_UNSUPPORTED);
    EXPECT_NE(std::strstr(table.last_error(), "f32"), nullptr) << table.last_error();
    EXPECT_EQ(table.create(&layer, "seams=act", &instance, &v), SINKTRAP_ARGUMENT) << "cannot be chosen";
    EXPECT_EQ(instance, nullptr);
  }
}

}  // namespace
}  // namespace sinktrap::cuda_impl
