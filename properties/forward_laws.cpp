// Laws about the forward pass (CONTRACT.md sections 3, 5 and 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "judge/session.hpp"
#include "properties/batch.hpp"
#include "properties/law.hpp"
#include "properties/shared_run.hpp"
#include "properties/transform.hpp"

namespace sinktrap {
namespace {

using namespace batch;

Judgement lattice_is_exact(const Case& c, const Implementation& implementation) {
  OneRun one(c, implementation);
  const Expectation expected = expect(one.in());
  if (!expected.certificate.exact)
    stop(Status::skipped, "the reference does not certify this case: " + expected.certificate.why);
  return judge_output(one.in(), expected, one.out(), one.declaration());
}

bool is_sweep(const Case& c) {
  return is_forward(c) && forward(c).layer.fill == Fill::sweep && forward(c).layer.put.empty();
}
Judgement sweep_is_silu(const Case& c, const Implementation& implementation) {
  OneRun one(c, implementation);
  return judge_output(one.in(), expect(one.in()), one.out(), one.declaration());
}

Judgement dense_is_bounded(const Case& c, const Implementation& implementation) {
  OneRun one(c, implementation);
  return judge_output(one.in(), expect(one.in()), one.out(), one.declaration());
}

Judgement ordered_is_bitwise(const Case& c, const Implementation& implementation) {
  OneRun one(c, implementation);
  const sinktrap_declaration declared = one.declaration();
  if (!declared.seams_declared) stop(Status::failed, "an ordered implementation must declare its seams");
  const ForwardInputs& in = one.in();
  Judgement j = compare_bits(ordered_output(in, declared.seams), one.out(), "out");
  if (j.status != Status::passed || !judgement_details()) return j;
  const std::string vacuous = vacuous_because(in, reference::forward_f64(problem_of(in), false).out);
  if (!vacuous.empty()) {
    j.status = Status::vacuous;
    j.reason = vacuous;
  }
  return j;
}

// Any number but 0, which would be the same schedule.
constexpr std::uint64_t kAnotherSchedule = 0x5eed;

Judgement repeats_bitwise(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  Session session(implementation, in, options_of(forward(c), false));
  if (!session.declaration().deterministic)
    stop(Status::skipped, implementation.name() + " does not declare itself deterministic");
  const Tensor first = run(session, in);
  Session beside(implementation, in,
                 options_of(forward(c), false));  // a second layer, alive at the same time
  const Tensor second = run(beside, in);
  ForwardCase different = forward(c);
  ++different.layer.seed;
  const ForwardInputs other_in = make_inputs(different);
  Session other(implementation, other_in,
                options_of(different, false));  // with other weights and another pool
  run(other, other_in);
  const auto again = session.forward(in.x, in.gammas, in.token_slot);
  must_succeed(implementation, again.verdict, "the second forward");
  Judgement j = compare_bits(first, again.out, "out of the second call");
  if (j.status == Status::passed) j = compare_bits(first, second, "out of a second layer");
  if (j.status != Status::passed || !implementation.can(SINKTRAP_CAN_CHOOSE_SCHEDULE)) return j;
  // What depends on which block comes first repeats as long as the order does.
  SessionOptions reordered = options_of(forward(c), false);
  reordered.schedule ^= kAnotherSchedule;
  Session rescheduled(implementation, in, reordered);
  return compare_bits(first, run(rescheduled, in), "out under another order of threads and blocks");
}

// The pool is all NaN: not one token may look at it.
Judgement base_tokens_ignore_the_pool(const Case& c, const Implementation& implementation) {
  ForwardInputs in = make_inputs(forward(c));
  for (std::int64_t t = 0; t < in.T(); ++t) in.token_slot.set(t, -1);
  const Expectation expected = expect(in);
  Session session(implementation, in, options_of(forward(c), true));
  const auto before = session.forward(in.x, in.gammas, in.token_slot);
  must_succeed(implementation, before.verdict, "forward before the first bind");
  Judgement j = judge_output(in, expected, before.out, session.declaration());
  if (is_bad(j.status)) {
    j.reason = "before the first bind: " + j.reason;
    return j;
  }
  for (Tensor& t : in.pool) fill_with_nan(t);
  return judge_output(in, expected, run(session, in), session.declaration());
}

// Slots that no token uses hold NaN, infinity or values next to the largest; the outputs are those of the
// clean pool.
Judgement unused_slots_reach_nothing(const Case& c, const Implementation& implementation) {
  ForwardInputs in = make_inputs(forward(c));
  const Expectation expected = expect(in);
  // f16 holds up to 65504; in the wider types 2^120 is far beyond what a product survives.
  const double values[] = {NAN, -INFINITY, in.type == Element::f16 ? 65504.0 : 0x1p120};
  const double hostile = values[forward(c).layer.seed % 3];
  std::vector<bool> used(static_cast<std::size_t>(in.d.S), false);
  for (std::int64_t t = 0; t < in.T(); ++t)
    if (in.token_slot.at(t) >= 0) used[static_cast<std::size_t>(in.token_slot.at(t))] = true;
  if (std::all_of(used.begin(), used.end(), [](bool u) { return u; }))
    stop(Status::vacuous, "every slot is used by a token");
  for (std::int64_t s = 0; s < in.d.S; ++s)
    if (!used[static_cast<std::size_t>(s)])
      for (Tensor& t : in.pool) fill_slot(t, s, hostile);
  Session session(implementation, in, options_of(forward(c), true));
  return judge_output(in, expected, run(session, in), session.declaration());
}

// True when every weight that leads to hidden column h through w2 is zero: only then may a NaN be lost.
bool only_zero_factors(const ForwardInputs& in, std::int64_t h) {
  for (std::int64_t e = 0; e < in.d.n; ++e)
    for (std::int64_t j = 0; j < in.d.F; ++j)
      if (in.w2.at((e * in.d.H + h) * in.d.F + j) != 0.0) return false;
  return true;
}

// One token's x is NaN: its row is NaN throughout, and no other row notices.
Judgement rows_do_not_leak(const Case& c, const Implementation& implementation) {
  const ForwardCase& f = forward(c);
  if (f.T() < 2) stop(Status::vacuous, "fewer than two tokens");
  const ForwardInputs clean = make_inputs(f);
  const Expectation expected = expect(clean);
  ForwardInputs in = clean;
  const std::int64_t bad = static_cast<std::int64_t>(f.layer.seed % static_cast<std::uint64_t>(in.T()));
  for (std::int64_t h = 0; h < in.d.H; ++h) in.x.set(bad * in.d.H + h, NAN);
  Session session(implementation, in, options_of(f, true));
  Tensor out = run(session, in);
  for (std::int64_t h = 0; h < in.d.H; ++h) {
    const std::int64_t i = bad * in.d.H + h;
    if (!std::isnan(out.at(i)) && only_zero_factors(in, h)) continue;
    if (!std::isnan(out.at(i)))
      stop(Status::failed,
           fmt::format("x[{}] is NaN, but out{} is {}", bad, index_text(out.shape(), i), out.at(i)));
    out.set(i, expected.exact(i, in.d.H));  // judged; the rest is compared with the clean case
  }
  return judge_output(clean, expected, out, session.declaration());
}

Judgement shared_equals_expansion(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  const Expectation expected = expect(in);
  ForwardInputs wide = in;
  wide.layout = ExpertLayout::per_expert;
  wide.independent = false;  // its outer factors are copies
  for (const sinktrap_buffer b : {SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_BUFFER_DOWN_LORA_B}) {
    wide.pool[b] = repeat_outer(in.pool[b], in.d.n);
    if (!implementation.can(SINKTRAP_CAN_EXPAND)) continue;
    const auto made = expand(implementation, in.pool[b], b, in.d.n);
    must_succeed(implementation, made.verdict, "expand");
    Judgement same = compare_bits(wide.pool[b], made.factor, std::string(buffer_name(b)) + " expanded");
    if (same.status != Status::passed) return same;
  }
  // Per expert the down bridge is another number, so the expansion is judged by what the reference says of
  // it.
  const Expectation wide_expected = expect(wide);
  Session narrow(implementation, in, options_of(forward(c), false));
  Session expanded(implementation, wide, options_of(forward(c), false));
  const Tensor a = run(narrow, in), b = run(expanded, wide);
  Judgement j = judge_output(in, expected, a, narrow.declaration());
  if (is_bad(j.status)) return j;
  j = judge_output(wide, wide_expected, b, expanded.declaration());
  if (is_bad(j.status)) j.reason = "after expansion: " + j.reason;
  return j;
}

Judgement shards_sum_to_the_whole(const Case& c, const Implementation& implementation) {
  const ForwardCase& f = forward(c);
  const ForwardInputs in = make_inputs(f);
  const Expectation expected = expect(in);
  std::vector<double> sum(static_cast<std::size_t>(in.T() * in.d.H), 0.0);
  for (std::int64_t p = 0; p < f.tp; ++p) {
    const ForwardInputs part = shard_inputs(in, p, f.tp);
    const Expectation partial = expect(part);
    Session session(implementation, part, options_of(f, true));
    const Tensor out = run(session, part);
    Judgement j = judge_output(part, partial, out, session.declaration());
    if (is_bad(j.status)) return j;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += out.at(static_cast<std::int64_t>(i));
  }
  if (!expected.certificate.exact)
    stop(Status::skipped, "the reference does not certify this case: " + expected.certificate.why);
  Tensor total(Element::f64, {in.T(), in.d.H});
  for (std::size_t i = 0; i < sum.size(); ++i) total.set(static_cast<std::int64_t>(i), sum[i]);
  Judgement j = compare_exact(expected.stages.out, total, "sum of out over the shards",
                              expected.rows.whole ? nullptr : &expected.rows.row_of);
  note_power(in, expected, nullptr, j);
  return j;
}

}  // namespace

std::vector<Law> forward_laws() {
  return {
      {"lattice-is-exact",
       "on certified inputs every output equals the exact one, whatever seams are rounded",
       Generator::forward_lattice, 0, is_lattice, lattice_is_exact, 6, true},
      {"limits-are-exact",
       "layers of extents of 1, and batches of no or one token, have the exact output too",
       Generator::forward_limits, 0, is_lattice, lattice_is_exact, 1, true},
      {"dense-is-bounded", "on dense inputs every output lies within the bound of the declared seams",
       Generator::forward_dense, 0, is_dense, dense_is_bounded, 3},
      {"sweep-is-silu",
       "where an output is one activation times a power of two, it is that of silu, rounded once",
       Generator::forward_sweep, 0, is_sweep, sweep_is_silu, 2},
      {"ordered-is-bitwise",
       "an ordered implementation equals the ordered CPU path bit for bit on every input",
       Generator::forward_hostile, SINKTRAP_IS_ORDERED, is_forward, ordered_is_bitwise, 3},
      {"repeats-bitwise",
       "a deterministic implementation repeats bit for bit, whatever the order of threads, with another "
       "layer beside it too",
       Generator::forward_dense, 0, is_forward, repeats_bitwise, 1},
      {"base-tokens-ignore-the-pool",
       "a token of slot -1 gets the base layer's output, before a bind and whatever the pool holds",
       Generator::forward_lattice, 0, is_finite_fill, base_tokens_ignore_the_pool, 2},
      {"unused-slots-reach-nothing",
       "NaN, infinity or huge values in a slot that no token uses reach no output", Generator::forward_unused,
       0, is_finite_fill, unused_slots_reach_nothing, 2},
      {"rows-do-not-leak", "NaN in one token's x makes its own row NaN and reaches no other row",
       Generator::forward_rows, 0, is_finite_fill, rows_do_not_leak, 2},
      {"shared-equals-expansion",
       "a shared-outer pool gives the outputs of its expansion to per-expert factors",
       Generator::forward_shared, SINKTRAP_CAN_SHARED | SINKTRAP_CAN_PER_EXPERT, is_shared,
       shared_equals_expansion, 2},
      {"shards-sum-to-the-whole", "the partial outputs of the tensor-parallel shards sum to the whole output",
       Generator::forward_sharded, 0, is_sharded, shards_sum_to_the_whole, 2},
  };
}

}  // namespace sinktrap
