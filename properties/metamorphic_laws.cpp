// Laws that need no expected value: what one batch says about another (CONTRACT.md section 5 is a sum of
// products, so that reordering, padding and scaling have known effects). On certified inputs the two outputs
// are compared with each other, exactly; on others each has to lie within its bound.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "properties/batch.hpp"
#include "properties/transform.hpp"

namespace sinktrap {
namespace {

using namespace batch;
using Indices = std::vector<std::int64_t>;
constexpr auto A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB = SINKTRAP_BUFFER_GATE_UP_LORA_B,
               DLA = SINKTRAP_BUFFER_DOWN_LORA_A, B = SINKTRAP_BUFFER_DOWN_LORA_B;

bool has_order(const Case& c) {
  return is_finite_fill(c) && is_quick(c) && forward(c).T() > 1 && forward(c).layer.d.n > 1 &&
         forward(c).layer.d.S > 1;
}

Indices all(std::int64_t count) {
  Indices list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}
// A rotation by a number that follows from the case: every element moves, and the inverse is another one.
Indices rotated(std::int64_t count, std::uint64_t seed) {
  Indices list = all(count);
  if (count > 1)
    std::rotate(list.begin(),
                list.begin() + 1 + static_cast<std::ptrdiff_t>(seed % static_cast<std::uint64_t>(count - 1)),
                list.end());
  return list;
}

// A changed batch: element i of its output row t is that of row `rows[t]` of the original.
struct Changed {
  ForwardInputs in;
  Indices rows;
};
using Change = Changed (*)(const ForwardInputs& in, std::uint64_t seed);

// Both outputs within what the reference says; on certified inputs also equal to each other.
Judgement related(const Case& c, const Implementation& implementation, Change change) {
  const ForwardInputs in = make_inputs(forward(c));
  const Changed changed = change(in, forward(c).layer.seed);
  const Expectation expected = expect(in), changed_expected = expect(changed.in);
  Session session(implementation, in, options_of(forward(c), true));
  Session other(implementation, changed.in, options_of(forward(c), true));
  const Tensor found = run(session, in), changed_found = run(other, changed.in);
  Judgement j = judge_output(changed.in, changed_expected, changed_found, other.declaration());
  if (is_bad(j.status)) {
    j.reason = "after the change: " + j.reason;
    return j;
  }
  j = judge_output(in, expected, found, session.declaration());
  if (is_bad(j.status) || !expected.certificate.exact || !changed_expected.certificate.exact) return j;
  const Judgement same =
      compare_exact(take_axis(found, 0, changed.rows).values(), changed_found, "out after the change");
  return same.status == Status::passed ? j : same;
}

Changed tokens_permuted(const ForwardInputs& in, std::uint64_t seed) {
  const Indices order = rotated(in.T(), seed);
  Changed to{in, order};
  for (Tensor ForwardInputs::*t : {&ForwardInputs::x, &ForwardInputs::gammas, &ForwardInputs::token_slot})
    to.in.*t = take_axis(in.*t, 0, order);
  return to;
}

Changed slots_relabelled(const ForwardInputs& in, std::uint64_t seed) {
  const Indices order = rotated(in.d.S, seed);
  Changed to{in, all(in.T())};
  for (std::size_t b = 0; b < in.pool.size(); ++b) to.in.pool[b] = take_axis(in.pool[b], 0, order);
  for (std::int64_t t = 0; t < in.T(); ++t)
    for (std::int64_t s = 0; s < in.d.S; ++s)
      if (in.token_slot.at(t) == static_cast<double>(order[static_cast<std::size_t>(s)]))
        to.in.token_slot.set(t, static_cast<double>(s));
  return to;
}

Changed experts_permuted(const ForwardInputs& in, std::uint64_t seed) {
  const Indices order = rotated(in.d.n, seed);
  Changed to{in, all(in.T())};
  to.in.gammas = take_axis(in.gammas, 1, order);
  to.in.w13 = take_axis(in.w13, 0, order);
  to.in.w2 = take_axis(in.w2, 0, order);
  for (const sinktrap_buffer b : {A, GUB, DLA, B})
    if (in.pool[b].extent(1) == in.d.n) to.in.pool[b] = take_axis(in.pool[b], 1, order);
  return to;
}

// The ranks `order` of the pool (-1: zero), in both bridges alike.
Changed with_ranks(const ForwardInputs& in, const Indices& order) {
  Changed to{in, all(in.T())};
  Indices rows = order;
  for (const std::int64_t q : order) rows.push_back(q < 0 ? -1 : in.d.R + q);
  to.in.d.R = static_cast<std::int64_t>(order.size());
  to.in.pool[A] = take_axis(in.pool[A], 2, rows);
  to.in.pool[GUB] = take_axis(in.pool[GUB], 3, order);
  to.in.pool[DLA] = take_axis(in.pool[DLA], 2, order);
  to.in.pool[B] = take_axis(in.pool[B], 3, order);
  return to;
}
Changed ranks_permuted(const ForwardInputs& in, std::uint64_t seed) {
  return with_ranks(in, rotated(in.d.R, seed));
}
Changed ranks_padded(const ForwardInputs& in, std::uint64_t seed) {
  Indices order = all(in.d.R);
  order.resize(order.size() + 1 + seed % 9, -1);
  return with_ranks(in, order);
}

Changed w13_in_the_other_layout(const ForwardInputs& in, std::uint64_t) {
  Changed to{in, all(in.T())};
  Indices rows;
  const bool interleaved = in.w13_layout == SINKTRAP_W13_INTERLEAVED;
  for (std::int64_t row = 0; row < 2 * in.d.F; ++row)
    rows.push_back(interleaved ? 2 * (row % in.d.F) + row / in.d.F : row % 2 * in.d.F + row / 2);
  to.in.w13 = take_axis(in.w13, 1, rows);
  to.in.w13_layout = interleaved ? SINKTRAP_W13_CONTIGUOUS : SINKTRAP_W13_INTERLEAVED;
  return to;
}

// Zero B factors: what a slot of zeros gives, and the base model.
Judgement zero_adapters_are_the_base(const Case& c, const Implementation& implementation) {
  ForwardInputs in = make_inputs(forward(c));
  for (const sinktrap_buffer b : {GUB, B}) in.pool[b] = Tensor(in.type, in.pool[b].shape());
  ForwardInputs base = in;
  for (std::int64_t t = 0; t < in.T(); ++t) base.token_slot.set(t, -1);
  const Expectation expected = expect(base);
  Session session(implementation, in, options_of(forward(c), true));
  return judge_output(base, expected, run(session, in), session.declaration());
}

Judgement batches_concatenate(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  const Expectation expected = expect(in);
  const auto cut = static_cast<std::int64_t>(forward(c).layer.seed % static_cast<std::uint64_t>(in.T() + 1));
  Session session(implementation, in, options_of(forward(c), true));
  const Tensor whole = run(session, in);
  Tensor joined(in.type, whole.shape());
  for (const bool second : {false, true}) {
    Indices rows = all(second ? in.T() - cut : cut);
    for (std::int64_t& row : rows) row += second ? cut : 0;
    const auto part = session.forward(take_axis(in.x, 0, rows), take_axis(in.gammas, 0, rows),
                                      take_axis(in.token_slot, 0, rows));
    must_succeed(implementation, part.verdict, "forward of a part");
    for (std::int64_t i = 0; i < part.out.size(); ++i)
      joined.set((second ? cut : 0) * in.d.H + i, part.out.at(i));
  }
  Judgement j = judge_output(in, expected, whole, session.declaration());
  if (is_bad(j.status)) return j;
  Judgement parts = judge_output(in, expected, joined, session.declaration());
  if (is_bad(parts.status) || !expected.certificate.exact) return parts;
  const Judgement same = compare_exact(whole.values(), joined, "out of two parts");
  return same.status == Status::passed ? j : same;
}

// The outputs of several inputs, each judged by itself; empty where one of them is not certified: no equality
// is owed then.
struct Outputs {
  Judgement judgement;  // of the last input, or of the first that failed
  std::vector<std::vector<double>> values;
};
Outputs outputs_of(const Case& c, const Implementation& implementation,
                   const std::vector<const ForwardInputs*>& batches) {
  Outputs all_of_them;
  bool exact = true;
  for (const ForwardInputs* in : batches) {
    const Expectation expected = expect(*in);
    exact = exact && expected.certificate.exact;
    Session session(implementation, *in, options_of(forward(c), true));
    const Tensor out = run(session, *in);
    all_of_them.judgement = judge_output(*in, expected, out, session.declaration());
    if (is_bad(all_of_them.judgement.status)) return {all_of_them.judgement, {}};
    all_of_them.values.push_back(out.values());
  }
  if (!exact) all_of_them.values.clear();
  return all_of_them;
}

// sum of factors[k] * outs[k] is zero in every element, exactly.
Judgement sums_to_zero(const Outputs& outs, const std::vector<double>& factors, std::string_view what) {
  if (outs.values.empty()) return outs.judgement;
  Tensor sum(Element::f64, {static_cast<std::int64_t>(outs.values[0].size())});
  for (std::size_t k = 0; k < factors.size(); ++k)
    for (std::int64_t i = 0; i < sum.size(); ++i)
      sum.set(i, sum.at(i) + factors[k] * outs.values[k][static_cast<std::size_t>(i)]);
  const Judgement j = compare_exact(std::vector<double>(outs.values[0].size(), 0.0), sum, what);
  return j.status == Status::passed ? outs.judgement : j;
}

// out(down B doubled) - base = 2 (out - base). Every output involved has to be certified, or no equality is
// owed.
Judgement down_b_scales(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  ForwardInputs zero = in, twice = in;
  for (std::int64_t i = 0; i < in.pool[B].size(); ++i) {
    zero.pool[B].set(i, 0);
    twice.pool[B].set(i, 2 * in.pool[B].at(i));
  }
  return sums_to_zero(outputs_of(c, implementation, {&zero, &in, &twice}), {1, -2, 1},
                      "base - 2 out + out of a doubled down B");
}

// With gate/up B zero the adapter is linear: slot s stacked on slot s + 1 along the rank adds their deltas.
Judgement stacked_adapters_add(const Case& c, const Implementation& implementation) {
  ForwardInputs in = make_inputs(forward(c));
  in.pool[GUB] = Tensor(in.type, in.pool[GUB].shape());
  const std::int64_t S = in.d.S;
  Indices next = all(S);
  std::rotate(next.begin(), next.begin() + 1, next.end());
  ForwardInputs zero = in, shifted = in;
  zero.pool[B] = Tensor(in.type, in.pool[B].shape());
  for (std::size_t b = 0; b < in.pool.size(); ++b) shifted.pool[b] = take_axis(in.pool[b], 0, next);
  const Indices own = all(in.d.R);
  Indices low = own, high(own.size(), -1);
  low.resize(2 * own.size(), -1);
  high.insert(high.end(), own.begin(), own.end());
  ForwardInputs stacked = with_ranks(in, low).in;
  const ForwardInputs upper = with_ranks(shifted, high).in;
  for (std::size_t b = 0; b < in.pool.size(); ++b)  // one of the two is zero everywhere
    for (std::int64_t i = 0; i < stacked.pool[b].size(); ++i)
      if (upper.pool[b].at(i) != 0.0) stacked.pool[b].set(i, upper.pool[b].at(i));
  return sums_to_zero(outputs_of(c, implementation, {&zero, &in, &shifted, &stacked}), {-1, 1, 1, -1},
                      "out of two adapters - base - out of both stacked");
}

template <Change change>
Judgement holds_after(const Case& c, const Implementation& implementation) {
  return related(c, implementation, change);
}

}  // namespace

std::vector<Law> metamorphic_laws() {
  constexpr auto rich = Generator::forward_rich;
  return {
      {"token-order-does-not-matter", "permuting the tokens of a batch permutes the rows of its output", rich,
       0, has_order, holds_after<tokens_permuted>, 1},
      {"slot-labels-do-not-matter", "permuting the slots of the pool and the map alike changes no output",
       rich, 0, has_order, holds_after<slots_relabelled>, 1},
      {"expert-order-does-not-matter", "permuting the experts of every tensor alike changes no output", rich,
       0, has_order, holds_after<experts_permuted>, 1},
      {"rank-order-does-not-matter", "permuting the ranks of every factor alike changes no output", rich, 0,
       has_order, holds_after<ranks_permuted>, 1},
      {"pool-rank-does-not-matter", "an adapter gives the same output in a pool of larger rank", rich, 0,
       has_order, holds_after<ranks_padded>, 1},
      {"w13-layout-does-not-matter", "interleaved and contiguous w13 of the same rows give the same output",
       rich, SINKTRAP_CAN_INTERLEAVED | SINKTRAP_CAN_CONTIGUOUS, has_order,
       holds_after<w13_in_the_other_layout>, 1},
      {"batches-concatenate", "the parts of a batch give the rows of the whole", rich, 0, has_order,
       batches_concatenate, 1},
      {"zero-adapters-are-the-base", "with zero B factors every token has the output of the base model", rich,
       0, has_order, zero_adapters_are_the_base, 1},
      {"down-b-scales", "doubling down B doubles the down delta", rich, 0, has_order, down_b_scales, 1},
      {"stacked-adapters-add", "two adapters stacked along the rank add up where gate/up B is zero", rich, 0,
       has_order, stacked_adapters_add, 1},
  };
}

}  // namespace sinktrap
