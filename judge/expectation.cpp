#include "judge/expectation.hpp"

#include <algorithm>
#include <cstring>

#include "judge/compare.hpp"

namespace sinktrap {

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

Expectation expect(const ForwardInputs& in) {
  Expectation e;
  const reference::Problem problem = problem_of(in);
  e.stages = reference::forward_f64(problem);
  e.certificate = reference::certify(problem, e.stages);
  e.vacuous = vacuous_because(in, e.stages.out);
  return e;
}

Judgement judge_output(const ForwardInputs& in, const Expectation& expected, const Tensor& found,
                       const sinktrap_declaration& declaration) {
  Judgement j;
  if (expected.certificate.exact) {
    j = compare_exact(expected.stages.out, found, "out");
  } else {
    const std::uint32_t seams = declaration.seams_declared ? declaration.seams : SINKTRAP_ALL_SEAMS;
    const auto bound =
        reference::worst_case_bound(problem_of(in), expected.stages, seams, declaration.silu_class);
    j = compare_bounded(expected.stages.out, bound.error, found, "out");
    if (j.status == Status::passed && j.elements > 0 && j.unjudged == j.elements) {
      j.status = Status::vacuous;
      j.reason = "no element has a finite bound";
    }
  }
  if (j.status == Status::passed && !expected.vacuous.empty()) {
    j.status = Status::vacuous;
    j.reason = expected.vacuous;
  }
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
  if (out.empty()) return "";  // T = 0: what is judged is that the call succeeds
  const bool alike = std::all_of(out.begin(), out.end(), [&](double v) { return v == out[0]; });
  if (alike && (out.size() > 1 || out[0] == 0.0)) return "all expected outputs are alike";
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
  return without == out ? "taking the adapters away changes nothing" : "";
}

}  // namespace sinktrap
