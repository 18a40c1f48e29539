// A small layer with a pool, reached through the table, for tests of the state machine.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "contract/verdict.hpp"
#include "random_problem.hpp"
#include "reference/table.hpp"

namespace sinktrap::reference::test {

struct LayerFixture {
  static constexpr Element kType = Element::bf16;
  Random random{4};
  Dimensions d;
  RandomProblem r;  // base weights and the first pool
  const sinktrap_implementation_table& table;
  sinktrap_instance* instance = nullptr;
  Verdict verdict{};

  explicit LayerFixture(const sinktrap_implementation_table* implementation, std::int64_t outer = 1,
                        const char* options = "")
      : d{.T = 4, .n = 2, .H = 6, .F = 5, .S = 3, .R = 2, .outer = outer},
        r(random, d),
        table(*implementation) {
    const DLTensor w13 = r.w13.view(), w2 = r.w2.view();
    const sinktrap_layer layer = description(w13, w2);
    table.create(&layer, options, &instance, &verdict);
  }
  ~LayerFixture() { table.destroy(instance); }
  LayerFixture(const LayerFixture&) = delete;
  LayerFixture& operator=(const LayerFixture&) = delete;

  sinktrap_layer description(const DLTensor& w13, const DLTensor& w2) const {
    return {sizeof(sinktrap_layer), d.w13_layout, d.n, d.H, d.F, dl_type(kType), &w13, &w2};
  }
  using Pool = std::array<Tensor, SINKTRAP_BUFFER_COUNT>;
  // A pool like the first with other contents.
  Pool other_pool() {
    Pool pool = r.pool;
    for (Tensor& t : pool) fill(t, random, 1.0);
    return pool;
  }
  Verdict bind(const Pool& pool) {
    const DLTensor views[] = {pool[0].view(), pool[1].view(), pool[2].view(), pool[3].view()};
    EXPECT_EQ(table.bind(instance, views, &verdict), verdict.code);
    return verdict;
  }
  Verdict update(std::vector<std::int64_t> ids) {
    const sinktrap_slot_set set{ids.data(), static_cast<std::int64_t>(ids.size())};
    EXPECT_EQ(table.update(instance, &set, &verdict), verdict.code);
    return verdict;
  }
  Verdict update_all() {
    EXPECT_EQ(table.update(instance, nullptr, &verdict), verdict.code);
    return verdict;
  }

  // Output of the last forward; untouched (all 77) when that was refused.
  Tensor out{kType, {0}};
  Verdict forward(std::vector<std::int32_t> slots) {
    Tensor ids(Element::i32, {d.T});
    for (std::int64_t t = 0; t < d.T; ++t) ids.set(t, slots[static_cast<std::size_t>(t)]);
    out = Tensor(kType, {d.T, d.H});
    for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, 77);
    const DLTensor x = r.x.view(), gammas = r.gammas.view(), token_slot = ids.view();
    DLTensor out_view = out.view();
    const sinktrap_forward_args args{sizeof args, 0, &x, &gammas, &token_slot, &out_view};
    EXPECT_EQ(table.forward(instance, &args, &verdict), verdict.code);
    if (verdict.code != SINKTRAP_OK) {
      for (double value : out.values()) EXPECT_EQ(value, 77);
    }
    return verdict;
  }
  // Output of a forward that has to succeed.
  Tensor served(std::vector<std::int32_t> slots) {
    EXPECT_EQ(forward(std::move(slots)), verdict_of(SINKTRAP_OK));
    return out;
  }

  // Bytes of a derived operand; empty when there is none.
  std::vector<char> operand(const char* name, const void** address = nullptr) {
    DLTensor view{};
    EXPECT_EQ(table.derived(instance, name, &view, &verdict), verdict.code);
    if (verdict.code != SINKTRAP_OK) return {};
    if (address != nullptr) *address = view.data;
    std::int64_t bytes = 2;
    for (int axis = 0; axis < view.ndim; ++axis) bytes *= view.shape[axis];
    std::vector<char> copy(static_cast<std::size_t>(bytes));
    std::memcpy(copy.data(), view.data, copy.size());
    return copy;
  }
};

}  // namespace sinktrap::reference::test
