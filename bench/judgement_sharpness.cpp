// How sharp the two bounds are: the share of each that an honest implementation with every seam uses (the
// largest of its outputs), and how often each rejects a down delta that is 1.05 times too large. Dense cases
// of growing size.
#include <fmt/format.h>

#include <cmath>

#include "judge/expectation.hpp"
#include "zoo/zoo.hpp"

namespace {

using namespace sinktrap;

struct Use {
  double worst = 0, likely = 0;
};

Use used(const std::vector<double>& out, const std::vector<double>& exact, const reference::Bound& worst,
         const reference::Bound& likely) {
  Use u;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double off = std::fabs(out[i] - exact[i]);
    u.worst = std::max(u.worst, off / worst.error[i]);
    u.likely = std::max(u.likely, off / likely.error[i]);
  }
  return u;
}

void row(std::int64_t H, int cases) {
  double worst = 0, likely = 0, ratio = 0;
  int rejected_worst = 0, rejected_likely = 0;
  for (int k = 0; k < cases; ++k) {
    ForwardCase c;
    c.layer.d = {.n = 2, .H = H, .F = H / 2, .R = H >= 256 ? 32 : 8, .S = 1};
    c.layer.ranks = {c.layer.d.R};
    c.layer.fill = Fill::dense;
    c.layer.seed = static_cast<std::uint64_t>(k);
    c.slots.assign(H > 2048 ? 4 : 13,
                   0);  // 13: the public test's; four tokens already take seconds at H = 6144
    const ForwardInputs in = make_inputs(c);
    const reference::Problem problem = problem_of(in);
    const reference::Stages s = reference::forward_f64(problem);
    const auto w = reference::worst_case_bound(problem, s, SINKTRAP_ALL_SEAMS, SINKTRAP_SILU_RELATIVE);
    const auto l = reference::independent_bound(problem, s, SINKTRAP_ALL_SEAMS, SINKTRAP_SILU_RELATIVE);
    const zoo::Layer layer = zoo::layer_of(in);
    const zoo::Choice choice = zoo::plain_choice(SINKTRAP_ALL_SEAMS);
    const Use honest = used(zoo::forward(layer, choice), s.out, w, l);
    const Use scaled = used(zoo::forward(layer, choice, zoo::Wrong::scaled_down_delta), s.out, w, l);
    worst = std::max(worst, honest.worst), likely = std::max(likely, honest.likely);
    rejected_worst += scaled.worst > 1, rejected_likely += scaled.likely > 1;
    for (std::size_t i = 0; i < s.out.size(); ++i)
      ratio += l.error[i] / w.error[i] / static_cast<double>(s.out.size()) / cases;
  }
  fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {}/{} | {}/{} |\n", H, cases, worst, likely, ratio,
             rejected_worst, cases, rejected_likely, cases);
  std::fflush(stdout);
}

}  // namespace

int main() {
  fmt::print(
      "| H | cases | honest / worst case | honest / probabilistic | probabilistic / worst case | 1.05 "
      "rejected by "
      "the worst case | by the probabilistic |\n|---|---|---|---|---|---|---|\n");
  row(64, 20);
  row(256, 20);
  row(1024, 5);
  row(6144, 1);
  return 0;
}
