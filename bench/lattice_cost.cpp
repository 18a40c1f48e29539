// What a lattice case costs to make, in units of the reference's forward pass of it: a judgement does both
// once. Best of many repeats, several seeds (the number of token classes differs), sizes of unit tests and
// larger ones.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "judge/expectation.hpp"

namespace {

using namespace sinktrap;
using Clock = std::chrono::steady_clock;

ForwardCase shape(const Dimensions& d, std::int64_t T, ExpertLayout layout, std::uint64_t seed) {
  ForwardCase c;
  c.layer.d = d;
  c.layer.layout = layout;
  c.layer.ranks.assign(static_cast<std::size_t>(d.S), d.R);
  c.layer.seed = seed;
  for (std::int64_t t = 0; t < T; ++t) c.slots.push_back(static_cast<std::int32_t>(t % (d.S + 1)) - 1);
  return c;
}

template <class Work>
double best_microseconds(Work work) {
  constexpr int kRepeats = 30;  // the best of these is free of what else the machine does
  double best = 1e300;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main() {
  struct Row {
    Dimensions d;
    std::int64_t T;
    ExpertLayout layout;
  };
  const Row rows[] = {{{.n = 2, .H = 8, .F = 5, .R = 3, .S = 2}, 3, ExpertLayout::shared},
                      {{.n = 2, .H = 29, .F = 13, .R = 8, .S = 3}, 12, ExpertLayout::shared},
                      {{.n = 2, .H = 29, .F = 13, .R = 8, .S = 3}, 12, ExpertLayout::per_expert},
                      {{.n = 2, .H = 64, .F = 32, .R = 8, .S = 2}, 16, ExpertLayout::shared},
                      {{.n = 2, .H = 256, .F = 128, .R = 32, .S = 4}, 32, ExpertLayout::shared}};
  constexpr std::uint64_t kSeeds = 20;
  fmt::print("| shape | making it, us | reference forward, us | ratio |\n|---|---|---|---|\n");
  for (const Row& row : rows) {
    double made = 0, computed = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const ForwardCase c = shape(row.d, row.T, row.layout, seed);
      made += best_microseconds([&] { make_inputs(c); });
      const ForwardInputs in = make_inputs(c);
      const reference::Problem problem = problem_of(in);
      computed += best_microseconds([&] { reference::forward_f64(problem); });
    }
    fmt::print("| T={} n={} H={} F={} R={} S={} {} | {:.0f} | {:.0f} | {:.2f} |\n", row.T, row.d.n, row.d.H,
               row.d.F, row.d.R, row.d.S, row.layout == ExpertLayout::shared ? "shared" : "per expert",
               made / kSeeds, computed / kSeeds, made / computed);
  }
  return 0;
}
