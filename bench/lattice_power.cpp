// In what share of single lattice cases a fault of precision shows: each of the six sums accumulated in the
// storage type, the shared down bridge rounded for each expert, experts added in the storage type, bridges
// kept in three significant bits. bf16, 200 cases of a shape.
#include <fmt/format.h>

#include <cmath>

#include "judge/expectation.hpp"
#include "reference/forward_steps.hpp"
#include "zoo/zoo.hpp"

namespace {

using namespace sinktrap;

ForwardCase shape(std::int64_t n, std::int64_t H, std::int64_t F, std::uint64_t seed) {
  ForwardCase c;
  c.layer.d = {.n = n, .H = H, .F = F, .R = 8, .S = 3};
  c.layer.ranks = {8, 3, 8};
  c.layer.seed = seed;
  for (std::int32_t t = 0; t < 12; ++t) c.slots.push_back(t % 4 - 1);
  return c;
}

constexpr int kCases = 200;

template <class Faulty>
double share(std::int64_t n, std::int64_t H, std::int64_t F, Faulty faulty) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const zoo::Layer layer = zoo::layer_of(make_inputs(shape(n, H, F, seed)));
    seen += faulty(layer) != zoo::forward(layer, zoo::plain_choice(0));
  }
  return 100.0 * seen / kCases;
}

// The exact outputs, but for one stage that keeps three significant bits.
std::vector<double> in_three_bits(const ForwardInputs& in, std::vector<double> reference::Stages::*stage) {
  const auto coarse = [](double v) {
    int exponent = 0;
    const double fraction = std::frexp(v, &exponent);
    return std::ldexp(std::nearbyint(fraction * 8), exponent - 3);
  };
  const reference::Problem problem = problem_of(in);
  const reference::ForwardSteps steps(problem);
  reference::Stages s = steps.zero_stages();
  const auto round = [&](std::vector<double> reference::Stages::*done) {
    for (double& v : s.*done)
      if (done == stage) v = coarse(v);
  };
  steps.base_y(s);
  steps.bridge(s);
  round(&reference::Stages::bridge);
  steps.delta(s);
  steps.activation(s);
  steps.expert_out(s);
  steps.down_bridge(s);
  round(&reference::Stages::down_bridge);
  steps.down_delta(s);
  steps.out(s);
  return s.out;
}

double share_in_three_bits(std::int64_t n, std::int64_t H, std::int64_t F,
                           std::vector<double> reference::Stages::*stage) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const ForwardInputs in = make_inputs(shape(n, H, F, seed));
    seen += in_three_bits(in, stage) != in_three_bits(in, nullptr);
  }
  return 100.0 * seen / kCases;
}

}  // namespace

int main() {
  const std::int64_t shapes[][3] = {{2, 29, 13}, {3, 29, 13}, {4, 61, 31}};
  fmt::print("| fault |");
  for (const auto& [n, H, F] : shapes) fmt::print(" n={} H={} F={} |", n, H, F);
  fmt::print("\n|---|---|---|---|\n");
  for (int k = 0; k < zoo::kSums; ++k) {
    fmt::print("| {} accumulated in bf16 |", zoo::kSumNames[k]);
    for (const auto& s : shapes)
      fmt::print(" {:.0f} % |", share(s[0], s[1], s[2], [&](const zoo::Layer& layer) {
                   zoo::Choice c = zoo::plain_choice(0);
                   c.sums[static_cast<std::size_t>(k)].kind = zoo::Summation::Kind::storage;
                   return zoo::forward(layer, c);
                 }));
    fmt::print("\n");
  }
  for (const zoo::Wrong wrong : {zoo::Wrong::bridge_rounded_each, zoo::Wrong::experts_summed_stored}) {
    for (const zoo::WrongRow& row : zoo::wrongs())
      if (row.wrong == wrong) fmt::print("| {} |", row.meaning);
    for (const auto& s : shapes)
      fmt::print(" {:.0f} % |", share(s[0], s[1], s[2], [&](const zoo::Layer& layer) {
                   return zoo::forward(layer, zoo::plain_choice(0), wrong);
                 }));
    fmt::print("\n");
  }
  const std::pair<const char*, std::vector<double> reference::Stages::*> coarse[] = {
      {"gate/up bridges in 3 bits", &reference::Stages::bridge},
      {"the down bridge in 3 bits", &reference::Stages::down_bridge}};
  for (const auto& [name, stage] : coarse) {
    fmt::print("| {} |", name);
    for (const auto& s : shapes) fmt::print(" {:.0f} % |", share_in_three_bits(s[0], s[1], s[2], stage));
    fmt::print("\n");
  }
  return 0;
}
