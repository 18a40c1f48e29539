#include "judge/expectation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "contract/verdict.hpp"
#include "judge/compare.hpp"
#include "reference/power.hpp"
#include "reference/sweep.hpp"

namespace sinktrap {
namespace {

constexpr const char* kAlike = "all expected outputs are alike";
constexpr const char* kNoAdapter = "taking the adapters away changes nothing that could be seen";

// T = 0 is not: what is judged there is that the call succeeds.
bool all_alike(const std::vector<double>& out) {
  if (out.empty()) return false;
  const bool alike = std::all_of(out.begin(), out.end(), [&](double v) { return v == out[0]; });
  return alike && (out.size() > 1 || out[0] == 0.0);
}

}  // namespace

reference::Problem problem_of(const ForwardInputs& in) {
  reference::Problem p;
  p.T = in.T();
  p.n = in.d.n;
  p.H = in.d.H;
  p.F = in.d.F;
  p.S = in.d.S;
  p.R = in.d.R;
  p.outer = in.outer();
  p.w13_layout = in.w13_layout;
  p.type = in.type;
  p.gamma_type = in.gammas.type();
  p.x = in.x.bytes().data();
  p.gammas = in.gammas.bytes().data();
  p.w13 = in.w13.bytes().data();
  p.w2 = in.w2.bytes().data();
  for (std::size_t i = 0; i < in.pool.size(); ++i) p.pool[i] = in.pool[i].bytes().data();
  p.token_slot = reinterpret_cast<const std::int32_t*>(in.token_slot.bytes().data());
  return p;
}

reference::Problem problem_of(const ForwardInputs& in, const Distinct& rows) {
  reference::Problem p = problem_of(in);
  if (rows.whole) return p;
  p.T = rows.x.extent(0);
  p.x = rows.x.bytes().data();
  p.gammas = rows.gammas.bytes().data();
  p.token_slot = reinterpret_cast<const std::int32_t*>(rows.token_slot.bytes().data());
  return p;
}

Expectation expect(const ForwardInputs& in) {
  Expectation e;
  e.rows = distinct_rows(in);
  const reference::Problem problem = problem_of(in, e.rows);
  e.stages = reference::forward_f64(problem);
  e.certificate = reference::certify(problem, e.stages);
  if (all_alike(e.stages.out)) e.vacuous = kAlike;
  return e;
}

std::vector<double> allowed_error(const reference::Problem& problem, const reference::Stages& stages,
                                  const sinktrap_declaration& declaration, bool independent) {
  const std::uint32_t seams = declaration.seams_declared ? declaration.seams : SINKTRAP_ALL_SEAMS;
  std::vector<double> error =
      reference::worst_case_bound(problem, stages, seams, declaration.silu_class).error;
  if (!independent || reference::independent_bound_work(problem) > kIndependentWork) return error;
  const auto likely = reference::independent_bound(problem, stages, seams, declaration.silu_class);
  for (std::size_t i = 0; i < error.size(); ++i) error[i] = std::min(error[i], likely.error[i]);
  return error;
}

std::string bound_stage(const reference::Problem& whole, std::int64_t t, std::int64_t h,
                        const sinktrap_declaration& declaration, bool independent) {
  reference::Problem p = whole;
  p.T = 1;
  p.x = static_cast<const std::byte*>(whole.x) + t * p.H * element_bytes(p.type);
  p.gammas = static_cast<const std::byte*>(whole.gammas) + t * p.n * element_bytes(p.gamma_type);
  p.token_slot = whole.token_slot + t;
  const reference::Stages stages = reference::forward_f64(p);
  const std::uint32_t seams = declaration.seams_declared ? declaration.seams : SINKTRAP_ALL_SEAMS;
  const auto error = [&](std::uint32_t mask) {
    const sinktrap_declaration d = {1, mask, declaration.silu_class, declaration.deterministic};
    return allowed_error(p, stages, d, independent)[static_cast<std::size_t>(h)];
  };
  const double all = error(seams), value = std::fabs(stages.out[static_cast<std::size_t>(h)]);
  if (!std::isfinite(all)) return "";
  const FloatFormat f = float_format(p.type);
  const int exponent = std::max(value > 0 ? std::ilogb(value) : f.min_exponent, f.min_exponent);
  const double store = std::ldexp(1.0, exponent - f.significant_bits);
  std::string stage = "out";
  double largest = store;
  const auto offer = [&](double part, std::string name) {
    if (part > largest) largest = part, stage = std::move(name);
  };
  offer(error(0) - store, "sums");
  for (int k = 0; k < SINKTRAP_SEAM_COUNT; ++k)
    if (seams >> k & 1u) offer(all - error(seams & ~(1u << k)), seams_to_text(1u << k));
  return stage;
}

void note_power(const ForwardInputs& in, const Expectation& expected, const std::vector<double>* error,
                Judgement& j) {
  if (!judgement_details()) return;
  const reference::Power power = reference::power_of(problem_of(in, expected.rows), error);
  j.kinds_seen = power.seen;
  j.kinds_vacuous = power.vacuous;
  if (j.status != Status::passed) return;
  if (!expected.vacuous.empty()) {
    j.status = Status::vacuous;
    j.reason = expected.vacuous;
  } else if (power.vacuous >> static_cast<int>(reference::FaultKind::missing_delta) & 1u) {
    j.status = Status::vacuous;
    j.reason = kNoAdapter;
  } else if (power.seen == 0 && power.vacuous != 0) {
    j.status = Status::vacuous;
    j.reason = "no kind of fault would change an output by more than its tolerance";
  }
}

namespace {

// At most two values are legal for an output: the middle of them, and half their distance, are exact doubles.
Judgement judge_sweep(const ForwardInputs& in, const Expectation& expected, const reference::Sweep& sweep,
                      const Tensor& found) {
  std::vector<double> middle(sweep.low.size()), half(middle.size());
  for (std::size_t i = 0; i < middle.size(); ++i) {
    middle[i] = (sweep.low[i] + sweep.high[i]) / 2;
    half[i] = (sweep.high[i] - sweep.low[i]) / 2;
  }
  Judgement j =
      compare_bounded(middle, half, found, "out", expected.rows.whole ? nullptr : &expected.rows.row_of);
  j.bound_use = 0;  // one of the legal values is no share of a bound
  j.bound_at = -1;
  // Seen from the exact value, the far end of the interval is what is allowed.
  for (std::size_t i = 0; i < half.size(); ++i)
    half[i] = std::max(sweep.high[i] - expected.stages.out[i], expected.stages.out[i] - sweep.low[i]);
  note_power(in, expected, &half, j);
  return j;
}

}  // namespace

Judgement judge_output(const ForwardInputs& in, const Expectation& expected, const Tensor& found,
                       const sinktrap_declaration& declaration) {
  const std::vector<std::int32_t>* row_of = expected.rows.whole ? nullptr : &expected.rows.row_of;
  if (expected.certificate.exact) {
    Judgement j = compare_exact(expected.stages.out, found, "out", row_of);
    note_power(in, expected, nullptr, j);
    return j;
  }
  const reference::Problem problem = problem_of(in, expected.rows);
  if (in.sweep) {
    const reference::Sweep sweep =
        reference::sweep_interval(problem, expected.stages, declaration.silu_class);
    if (sweep.why.empty()) return judge_sweep(in, expected, sweep, found);
  }
  const std::vector<double> error = allowed_error(problem, expected.stages, declaration, in.independent);
  Judgement j = compare_bounded(expected.stages.out, error, found, "out", row_of);
  if (j.bound_at >= 0 && judgement_details())
    j.bound_stage =
        bound_stage(problem, j.bound_at / in.d.H, j.bound_at % in.d.H, declaration, in.independent);
  if (j.status == Status::passed && j.elements > 0 && j.unjudged == j.elements) {
    j.status = Status::vacuous;
    j.reason = "no element has a finite bound";
  }
  note_power(in, expected, &error, j);
  return j;
}

Tensor ordered_output(const ForwardInputs& in, std::uint32_t seams) {
  const std::vector<std::byte> bytes = reference::forward_ordered(problem_of(in), seams);
  Tensor out(in.type, {in.T(), in.d.H});
  std::copy_n(bytes.begin(), out.bytes().size(), out.bytes().begin());
  return out;
}

Tensor rounded_output(const ForwardInputs& in, const std::vector<double>& out) {
  Tensor t(in.type, {in.T(), in.d.H});
  for (std::size_t i = 0; i < out.size(); ++i) t.set(static_cast<std::int64_t>(i), out[i]);
  return t;
}

std::string vacuous_because(const ForwardInputs& in, const std::vector<double>& out) {
  if (all_alike(out)) return kAlike;
  if (out.empty()) return "";
  Tensor none = in.token_slot;
  bool adapters = false;
  for (std::int64_t t = 0; t < none.size(); ++t) {
    adapters = adapters || none.at(t) >= 0;
    none.set(t, -1);
  }
  if (!adapters) return "";
  reference::Problem base = problem_of(in);
  base.token_slot = reinterpret_cast<const std::int32_t*>(none.bytes().data());
  const std::vector<double> without = reference::forward_f64(base, false).out;
  // NaN differs from everything: a hostile case is never vacuous for that reason.
  return without == out ? kNoAdapter : "";
}

}  // namespace sinktrap
