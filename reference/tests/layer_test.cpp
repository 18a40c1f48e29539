// The state machine of CONTRACT.md section 3, through the table, in both arithmetics.
#include "layer_fixture.hpp"

namespace sinktrap::reference {
namespace {

using test::LayerFixture;

const Verdict kServed = verdict_of(SINKTRAP_OK);

Verdict outside(std::int64_t found, std::int64_t expected) {
  return verdict_of(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, found, expected);
}

// By name: the address of a table would be another one in every build, also in what ctest lists.
class Layers : public testing::TestWithParam<std::string> {
 protected:
  static const sinktrap_implementation_table* table() {
    return GetParam() == "ordered" ? ordered_table() : f64_table();
  }
};
INSTANTIATE_TEST_SUITE_P(Both, Layers, testing::Values("f64", "ordered"),
                         [](const auto& info) { return info.param; });

TEST_P(Layers, ServesTheBaseModelBeforeABind) {
  LayerFixture f(table());
  ASSERT_NE(f.instance, nullptr);
  const Tensor base = f.served({-1, -1, -1, -1});
  EXPECT_EQ(f.forward({-1, 0, -1, -1}), verdict_of(SINKTRAP_UNBOUND));
  EXPECT_EQ(f.forward({-1, 5, -2, -3}), outside(-2, 0));
  EXPECT_EQ(f.update_all(), verdict_of(SINKTRAP_UNBOUND));
  EXPECT_EQ(f.update({99}), verdict_of(SINKTRAP_UNBOUND));
  f.table.load(f.instance, -1, nullptr, &f.verdict);
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_UNBOUND));
  f.table.unload(f.instance, 77, &f.verdict);
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_UNBOUND));
  EXPECT_TRUE(f.operand("w1_delta").empty());
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_UNBOUND));

  ASSERT_EQ(f.bind(f.r.pool), kServed);
  EXPECT_TRUE(f.served({-1, -1, -1, -1}).same_bits(base));
  EXPECT_FALSE(f.served({0, 1, 2, 0}).same_bits(base));
}

TEST_P(Layers, ChecksIdsBeforeItWrites) {
  LayerFixture f(table());
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  EXPECT_EQ(f.forward({0, 3, -2, 1}), outside(3, 3));
  EXPECT_EQ(f.forward({0, 1, 2, -2}), outside(-2, 3));
  EXPECT_EQ(f.forward({0, INT32_MAX, 2, -2}), outside(INT32_MAX, 3));
}

TEST_P(Layers, AFailedBindKeepsServing) {
  LayerFixture f(table());
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  const Tensor before = f.served({0, 1, -1, 2});
  const std::vector<char> operand = f.operand("w1_delta");
  const auto still_serves = [&] {
    EXPECT_TRUE(f.served({0, 1, -1, 2}).same_bits(before));
    EXPECT_EQ(f.operand("w1_delta"), operand);
  };
  LayerFixture::Pool mixed = f.other_pool();
  mixed[3] = Tensor(LayerFixture::kType, {3, 2, 6, 2});
  EXPECT_EQ(f.bind(mixed), verdict_of(SINKTRAP_LAYOUT_MISMATCH, 3, 1, 2, 1));
  still_serves();

  const auto pool_of_shape = [&](Element type, std::int64_t S, std::int64_t outer, std::int64_t R) {
    LayerFixture::Pool pool;
    pool[0] = Tensor(type, {S, outer, 2 * R, 6});
    pool[1] = Tensor(type, {S, 2, 10, R});
    pool[2] = Tensor(type, {S, 2, R, 5});
    pool[3] = Tensor(type, {S, outer, 6, R});
    return pool;
  };
  EXPECT_EQ(f.bind(pool_of_shape(LayerFixture::kType, 4, 2, 3)),
            verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 0, 4, 3));
  still_serves();
  EXPECT_EQ(f.bind(pool_of_shape(LayerFixture::kType, 3, 2, 2)),
            verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 1, 2, 1));
  EXPECT_EQ(f.bind(pool_of_shape(LayerFixture::kType, 3, 1, 1)),
            verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, 0, 2, 2, 4));
  const std::int64_t bf16 = 4 * 16777216 + 16 * 65536 + 1, f16 = 2 * 16777216 + 16 * 65536 + 1;
  EXPECT_EQ(f.bind(pool_of_shape(Element::f16, 4, 1, 2)),
            verdict_of(SINKTRAP_DTYPE, 0, SINKTRAP_NONE, f16, bf16));
  f.table.bind(f.instance, nullptr, &f.verdict);
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_ARGUMENT));
  // Memory of another device can not be read here.
  DLTensor away[] = {f.r.pool[0].view(), f.r.pool[1].view(), f.r.pool[2].view(), f.r.pool[3].view()};
  for (DLTensor& t : away) t.device = {kDLCUDA, 1};
  f.table.bind(f.instance, away, &f.verdict);
  EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_DEVICE, 0, SINKTRAP_NONE, (std::int64_t{2} << 32) + 1,
                                  std::int64_t{1} << 32));
  still_serves();
}

TEST_P(Layers, ARebindServesTheNewPoolFromTheSameAddresses) {
  LayerFixture f(table());
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  const Tensor before = f.served({0, 1, -1, 2});
  const void *first = nullptr, *second = nullptr;
  const std::vector<char> operand = f.operand("w1_delta", &first);
  const LayerFixture::Pool other = f.other_pool();
  ASSERT_EQ(f.bind(other), kServed);
  EXPECT_FALSE(f.served({0, 1, -1, 2}).same_bits(before));
  EXPECT_NE(f.operand("w1_delta", &second), operand);
  EXPECT_EQ(first, second);
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  EXPECT_TRUE(f.served({0, 1, -1, 2}).same_bits(before));
  EXPECT_EQ(f.operand("w1_delta"), operand);
}

TEST_P(Layers, UpdatesExactlyTheSlotsNamed) {
  for (std::int64_t outer : {1, 2}) {
    LayerFixture f(table(), outer);
    ASSERT_EQ(f.bind(f.r.pool), kServed);
    const char* cat = outer == 1 ? "a_cat" : "b_cat";
    EXPECT_TRUE(f.operand(outer == 1 ? "b_cat" : "a_cat").empty());
    EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_UNSUPPORTED));

    const void *address = nullptr, *later = nullptr;
    const std::vector<char> stale = f.operand("w1_delta", &address), stale_cat = f.operand(cat);
    for (Tensor& t : f.r.pool) test::fill(t, f.random, 1.0);  // the pool copies adapters into all slots
    EXPECT_EQ(f.operand("w1_delta"), stale);                  // nothing follows before an update
    ASSERT_EQ(f.update({}), kServed);
    EXPECT_EQ(f.operand("w1_delta"), stale);
    EXPECT_EQ(f.operand(cat), stale_cat);

    ASSERT_EQ(f.update({2, 0, 2}), kServed);
    const std::vector<char> some = f.operand("w1_delta", &later), some_cat = f.operand(cat);
    const auto same_slot = [](const std::vector<char>& a, const std::vector<char>& b, std::size_t s) {
      const std::size_t bytes = a.size() / 3;
      return std::equal(a.begin() + static_cast<std::ptrdiff_t>(s * bytes),
                        a.begin() + static_cast<std::ptrdiff_t>((s + 1) * bytes),
                        b.begin() + static_cast<std::ptrdiff_t>(s * bytes));
    };
    EXPECT_EQ(address, later);
    for (std::size_t s : {0u, 2u})
      EXPECT_FALSE(same_slot(some, stale, s) || same_slot(some_cat, stale_cat, s));
    EXPECT_TRUE(same_slot(some, stale, 1) && same_slot(some_cat, stale_cat, 1));

    EXPECT_EQ(f.update({1, 3, -1}), outside(3, 3));
    EXPECT_EQ(f.operand("w1_delta"), some);
    ASSERT_EQ(f.update_all(), kServed);
    EXPECT_FALSE(same_slot(f.operand("w1_delta"), stale, 1));
    const sinktrap_slot_set no_ids{nullptr, 1}, negative{nullptr, -1};
    for (const auto* set : {&no_ids, &negative}) {
      f.table.update(f.instance, set, &f.verdict);
      EXPECT_EQ(f.verdict, verdict_of(SINKTRAP_ARGUMENT));
    }
  }
}

TEST_P(Layers, UnloadedMeansBase) {
  LayerFixture f(table());
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  const Tensor base = f.served({-1, -1, -1, -1});
  const Tensor slot_2 = f.served({2, 2, 2, 2});
  ASSERT_EQ(f.table.unload(f.instance, 1, &f.verdict), SINKTRAP_OK);
  ASSERT_EQ(f.update({1}), kServed);
  const Tensor unloaded = f.served({1, 1, 1, 1});
  EXPECT_EQ(unloaded.values(), base.values());
  EXPECT_TRUE(f.served({2, 2, 2, 2}).same_bits(slot_2));
  EXPECT_EQ(f.table.unload(f.instance, 3, &f.verdict), SINKTRAP_SLOT_RANGE);
  EXPECT_EQ(f.verdict, outside(3, 3));
}

TEST_P(Layers, LoadsThroughTheTable) {
  LayerFixture f(table());
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  Tensor gate_a(LayerFixture::kType, {1, 6}), gate_up_b(LayerFixture::kType, {20, 1}),
      down_a(LayerFixture::kType, {1, 10}), down_b(LayerFixture::kType, {6, 1});
  for (Tensor* t : {&gate_a, &gate_up_b, &down_a, &down_b}) test::fill(*t, f.random, 1.0);
  const DLTensor a = gate_a.view(), b = gate_up_b.view(), da = down_a.view(), db = down_b.view();
  const sinktrap_adapter adapter{sizeof adapter, 0, 1, 2.0f, 0, 0, 1, &a, nullptr, &b, &da, &db};
  const Tensor slot_0 = f.served({0, 0, 0, 0}), slot_1 = f.served({1, 1, 1, 1});
  ASSERT_EQ(f.table.load(f.instance, 1, &adapter, &f.verdict), SINKTRAP_OK);
  ASSERT_EQ(f.update({1}), kServed);
  EXPECT_FALSE(f.served({1, 1, 1, 1}).same_bits(slot_1));
  EXPECT_TRUE(f.served({0, 0, 0, 0}).same_bits(slot_0));
  EXPECT_EQ(f.table.load(f.instance, 1, nullptr, &f.verdict), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f.table.load(f.instance, 9, nullptr, &f.verdict), SINKTRAP_SLOT_RANGE);
}

// `forward` reads its arguments in the order of the contract, and touches `out` only when it serves.
TEST_P(Layers, ForwardChecksItsArguments) {
  LayerFixture f(table());
  const std::int64_t T = f.d.T;
  Tensor ids(Element::i32, {T}), out(LayerFixture::kType, {T, 6}), wide_gammas(Element::f32, {T, 2});
  for (std::int64_t t = 0; t < T; ++t) ids.set(t, -7);  // would be slot_range
  const auto code = [&](const DLTensor* x, const DLTensor* gammas, const DLTensor* slots, DLTensor* o,
                        std::uint32_t size = sizeof(sinktrap_forward_args)) {
    const sinktrap_forward_args args{size, 0, x, gammas, slots, o};
    EXPECT_EQ(f.table.forward(f.instance, &args, &f.verdict), f.verdict.code);
    return code_name(f.verdict.code);
  };
  DLTensor x = f.r.x.view(), gammas = f.r.gammas.view(), slots = ids.view(), o = out.view();
  EXPECT_EQ(code(&x, &gammas, &slots, &o), "slot_range");
  EXPECT_EQ(code(&x, &gammas, &slots, &o, 4), "argument");
  EXPECT_EQ(code(nullptr, &gammas, &slots, &o), "argument");
  EXPECT_EQ(code(&x, nullptr, &slots, &o), "argument");
  EXPECT_EQ(code(&x, &gammas, nullptr, &o), "argument");
  EXPECT_EQ(code(&x, &gammas, &slots, nullptr), "argument");
  EXPECT_EQ(f.table.forward(f.instance, nullptr, &f.verdict), SINKTRAP_ARGUMENT);
  EXPECT_EQ(f.table.forward(nullptr, nullptr, &f.verdict), SINKTRAP_ARGUMENT);

  const Tensor shorter(LayerFixture::kType, {T - 1, 6}), f16_gammas(Element::f16, {T, 2}),
      ids64(Element::i64, {T});
  const DLTensor short_x = shorter.view(), bad_gammas = f16_gammas.view(), bad_ids = ids64.view();
  EXPECT_EQ(code(&short_x, &gammas, &slots, &o), "argument");
  EXPECT_EQ(code(&x, &bad_gammas, &slots, &o), "argument");
  EXPECT_EQ(code(&x, &gammas, &bad_ids, &o), "argument");
  DLTensor flat = x;
  flat.ndim = 1;
  EXPECT_EQ(code(&flat, &gammas, &slots, &o), "argument");
  EXPECT_EQ(out.values(), std::vector<double>(static_cast<std::size_t>(T * 6)));

  for (std::int64_t t = 0; t < T; ++t) ids.set(t, -1);
  EXPECT_EQ(code(&x, &gammas, &slots, &o), "ok");
  const std::vector<double> narrow = out.values();
  for (std::int64_t i = 0; i < wide_gammas.size(); ++i) wide_gammas.set(i, f.r.gammas.at(i));
  gammas = wide_gammas.view();
  EXPECT_EQ(code(&x, &gammas, &slots, &o), "ok");
  EXPECT_EQ(out.values(), narrow);
}

TEST_P(Layers, NoTokensSucceed) {
  LayerFixture f(table());
  const Tensor none_x(LayerFixture::kType, {0, 6}), none_gammas(LayerFixture::kType, {0, 2}),
      none_ids(Element::i32, {0});
  const DLTensor x = none_x.view(), gammas = none_gammas.view(), ids = none_ids.view();
  DLTensor out = none_x.view();
  ASSERT_EQ(x.data, nullptr);
  const sinktrap_forward_args args{sizeof args, 0, &x, &gammas, &ids, &out};
  EXPECT_EQ(f.table.forward(f.instance, &args, &f.verdict), SINKTRAP_OK);
  ASSERT_EQ(f.bind(f.r.pool), kServed);
  EXPECT_EQ(f.table.forward(f.instance, &args, &f.verdict), SINKTRAP_OK);
  EXPECT_EQ(f.verdict, kServed);
}

}  // namespace
}  // namespace sinktrap::reference
