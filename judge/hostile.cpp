#include "judge/hostile.hpp"

#include <fmt/format.h>

#include <cmath>

#include "judge/buffer.hpp"
#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "reference/reach.hpp"

namespace sinktrap {
namespace {

using reference::Reach;

std::string wrong_kind(Reach reach, double found) {
  if (reach == Reach::nan && !std::isnan(found)) return "a NaN leads here with no zero factor";
  if (reach == Reach::not_finite && std::isfinite(found)) return "an infinity leads here with no zero factor";
  return "";
}

}  // namespace

Judgement judge_hostile(const ForwardInputs& in, const Tensor& found,
                        const sinktrap_declaration& declaration) {
  const reference::Problem problem = problem_of(in);
  const reference::Stages stages = reference::forward_f64(problem);
  const std::vector<Reach> reach = reference::reach_of(problem, stages);
  if (found.size() != static_cast<std::int64_t>(reach.size()))
    return compare_bounded(stages.out, {}, found, "out");
  std::vector<double> error = allowed_error(problem, stages, declaration, false);
  std::vector<std::string> details;
  std::int64_t wrong = 0, judged = 0;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    if (reach[i] == Reach::clean) continue;
    error[i] = HUGE_VAL;  // not a number to compare
    if (reach[i] != Reach::anything) ++judged;
    const double value = found.at(static_cast<std::int64_t>(i));
    const std::string why = wrong_kind(reach[i], value);
    if (why.empty()) continue;
    if (++wrong <= static_cast<std::int64_t>(kShownDifferences))
      details.push_back(fmt::format("out{} is {}: {}",
                                    index_text(found.shape(), static_cast<std::int64_t>(i)), value, why));
  }
  if (wrong > 0) {
    Judgement j;
    j.status = Status::failed;
    j.reason = fmt::format("{} of {} elements of out are finite, or a number, where they must not be", wrong,
                           reach.size());
    j.details = std::move(details);
    return j;
  }
  Judgement j = compare_bounded(stages.out, error, found, "out");
  j.unjudged -= judged;
  if (j.status == Status::passed && j.elements > 0 && j.unjudged == j.elements) {
    j.status = Status::vacuous;
    j.reason = "every element may be anything";
  }
  return j;
}

}  // namespace sinktrap
