// The table of docs/judgement.md: which faults the public kernels' tolerance sees, which ones sinktrap does,
// and the smallest case that shows each. Prints Markdown. One argument: the number of generated cases of each
// fill (100).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cases/fill.hpp"
#include "judge/expectation.hpp"
#include "properties/generators.hpp"
#include "properties/shrink.hpp"
#include "zoo/zoo.hpp"

namespace {

using namespace sinktrap;

// The seams of sglang's legacy path (CONTRACT.md section 5).
constexpr std::uint32_t kSeams = SINKTRAP_SEAM(BASE_Y) | SINKTRAP_SEAM(GATE_UP_BRIDGE) |
                                 SINKTRAP_SEAM(DOWN_BRIDGE) | SINKTRAP_SEAM(Y) | SINKTRAP_SEAM(ACT) |
                                 SINKTRAP_SEAM(BASE_OUT);
constexpr sinktrap_declaration kDeclared = {1, kSeams, SINKTRAP_SILU_RELATIVE, 1};

// The public test: T = 13 and 32, H = 256, F = 128, n = 2, R = 32, ranks 32, 16, 0, 8; x normal, weights
// 0.02, LoRA 0.05, gammas in [0.5, 1.5).
constexpr int kSeeds = 20;
ForwardInputs public_inputs(std::int64_t T, std::uint64_t seed) {
  ForwardCase c;
  c.layer.d = {.n = 2, .H = 256, .F = 128, .R = 32, .S = 4};
  c.layer.ranks = {32, 16, 0, 8};
  c.layer.fill = Fill::dense;
  c.layer.seed = seed;
  for (std::int64_t t = 0; t < T; ++t) c.slots.push_back(static_cast<std::int32_t>((t * 7 + 3) % 5) - 1);
  ForwardInputs in = make_inputs(c);
  const auto draw = [&](Role role, double deviation) {
    Tensor& t = tensor_of(in, role);
    Random random(seed, 50 + static_cast<std::uint64_t>(role));
    // Zeros are the tails of adapters below R and stay so.
    for (std::int64_t i = 0; i < t.size(); ++i)
      if (t.at(i) != 0) t.set(i, deviation * random.normal());
  };
  draw(Role::x, 1);
  for (const Role r : {Role::w13, Role::w2}) draw(r, 0.02);
  for (const Role r : {Role::gate_up_lora_a, Role::gate_up_lora_b, Role::down_lora_a, Role::down_lora_b})
    draw(r, 0.05);
  return in;
}

bool allclose(const std::vector<double>& found, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::fabs(found[i] - expected[i]) <= 3e-2 + 3e-2 * std::fabs(expected[i]))) return false;
  return true;
}

bool caught(const ForwardInputs& in, zoo::Wrong wrong) {
  const std::vector<double> out = zoo::forward(zoo::layer_of(in), zoo::plain_choice(kSeams), wrong);
  Tensor found(in.type, {in.T(), in.d.H});
  for (std::size_t i = 0; i < out.size(); ++i) found.set(static_cast<std::int64_t>(i), out[i]);
  return is_bad(judge_output(in, expect(in), found, kDeclared).status);
}

// Share of generated cases of a family on which the fault is caught; the last one caught stays in `example`.
double share(Generator family, int cases, zoo::Wrong wrong, std::optional<Case>& example) {
  int seen = 0;
  for (int k = 0; k < cases; ++k) {
    const Case c = generate_case(family, 77'000 + static_cast<std::uint64_t>(k), 10 + k % 31);
    if (!caught(make_inputs(std::get<ForwardCase>(c)), wrong)) continue;
    ++seen;
    if (!example) example = c;
  }
  return static_cast<double>(seen) / cases;
}

std::string percent(double v) { return fmt::format("{:.0f} %", 100 * v); }

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 100;
  if (cases < 1 || argc > 2) {
    fmt::print(stderr, "judgement_table: expected one number of cases, at least 1\n");
    return 2;
  }
  fmt::print(
      "| fault | `allclose(3e-2)` | lattice | dense | sweep | smallest case |\n|---|---|---|---|---|---|\n");
  std::vector<zoo::WrongRow> rows = {{zoo::Wrong::nothing, "none (honest)", ""}};
  rows.insert(rows.end(), zoo::wrongs().begin(), zoo::wrongs().end());
  for (const zoo::WrongRow& row : rows) {
    int close = 0;
    for (const std::int64_t T : {13, 32})
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        const zoo::Layer layer = zoo::layer_of(public_inputs(T, seed));
        close += !allclose(zoo::forward(layer, zoo::plain_choice(kSeams), row.wrong),
                           zoo::forward(layer, zoo::plain_choice(0)));
      }
    std::optional<Case> example;
    const double dense = share(Generator::forward_dense, cases, row.wrong, example);
    const double sweep = share(Generator::forward_sweep, cases, row.wrong, example);
    const double lattice = share(Generator::forward_lattice, cases, row.wrong, example);
    std::string smallest = "-";
    if (example) {
      const auto fails = [&](const Case& c) {
        return std::holds_alternative<ForwardCase>(c) &&
               caught(make_inputs(std::get<ForwardCase>(c)), row.wrong);
      };
      smallest = fmt::format("`{}`", print_case(shrink_case(*example, fails, 2000)));
    }
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", row.name, percent(close / (2.0 * kSeeds)),
               percent(lattice), percent(dense), percent(sweep), smallest);
    std::fflush(stdout);
  }
  return 0;
}
