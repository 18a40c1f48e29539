// NaN, infinity, subnormal and huge values (CONTRACT.md section 6).
#include "judge/hostile.hpp"
#include "judge/session.hpp"
#include "properties/law.hpp"

namespace sinktrap {
namespace {

bool is_forward(const Case& c) { return std::holds_alternative<ForwardCase>(c); }

Judgement hostile_values_stay_on_their_paths(const Case& c, const Implementation& implementation) {
  const ForwardCase& f = std::get<ForwardCase>(c);
  const ForwardInputs in = make_inputs(f);
  SessionOptions options;
  options.schedule = f.layer.schedule;
  Session session(implementation, in, options);
  must_succeed(implementation, session.bind(in.pool), "bind");
  const auto output = session.forward(in.x, in.gammas, in.token_slot);
  must_succeed(implementation, output.verdict, "forward");
  return judge_hostile(in, output.out, session.declaration());
}

}  // namespace

std::vector<Law> hostile_laws() {
  return {{"hostile-values-stay-on-their-paths",
           "NaN, infinity, subnormal and huge inputs reach exactly the outputs that section 5 leads them to",
           Generator::forward_hostile, 0, is_forward, hostile_values_stay_on_their_paths, 2}};
}

}  // namespace sinktrap
