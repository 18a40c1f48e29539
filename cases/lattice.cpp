#include <cmath>

#include "cases/fill.hpp"
#include "cases/fill_store.hpp"
#include "cases/lattice_plan.hpp"

namespace sinktrap {
namespace {

// Powers of two that may move from one factor to another without touching a significand.
struct Gauge {
  std::int32_t x, bridge, w2, down_a;
  Gauge(Random& random, Element type) {
    const std::int32_t m = lattice_range(type).gauge;
    x = random.between(-m, m);
    bridge = random.between(-m, m);
    // In f16 outputs already reach 64512 (lattice_plan.cpp): they may become smaller, not larger.
    const std::int32_t top = type == Element::f16 ? 0 : m;
    w2 = random.between(-m, top);
    down_a = random.between(-m, top);
  }
};

float power(std::int32_t exponent) { return std::ldexp(1.0f, exponent); }

void fill_tokens(const LatticePlan& plan, const Gauge& gauge, ForwardInputs& in) {
  const FastStore x(in.x), gammas(in.gammas);
  const std::int64_t H = in.d.H;
  for (std::int64_t t = 0; t < plan.T; ++t) {
    const auto ti = static_cast<std::size_t>(t);
    const float scale = power(gauge.x) * static_cast<float>(plan.scale_of[ti]);
    for (std::int64_t h = 0; h < H; ++h)
      x.set(t * H + h, scale * static_cast<float>(plan.x.value(plan.class_of[ti], h)));
    for (std::int64_t e = 0; e < plan.n; ++e)
      gammas.set(t * plan.n + e, power(plan.gamma[static_cast<std::size_t>(t * plan.n + e)]));
  }
}

void fill_w13(const LatticePlan& plan, const Gauge& gauge, Random& random, ForwardInputs& in) {
  const FastStore w13(in.w13);
  const std::int64_t F = plan.F, H = in.d.H;
  const std::size_t G = plan.groups.size();
  const float scale = power(-gauge.x);
  const bool interleaved = in.w13_layout == SINKTRAP_W13_INTERLEAVED;
  for (int half = 0; half < 2; ++half)
    close_rows(
        plan.x, random, plan.n * F,
        [&](std::int64_t row, int c) {
          const auto feature = static_cast<std::size_t>(row);
          const std::size_t i =
              static_cast<std::size_t>(c) * G + static_cast<std::size_t>(plan.group_of[feature]);
          return half == 0 ? plan.gate_unit * plan.gate[i] : plan.rho[feature] * plan.up[i];
        },
        [&](std::int64_t row, const std::int16_t* weights) {
          const std::int64_t e = row / F, j = row % F;
          const std::int64_t stored = e * 2 * F + (interleaved ? 2 * j + half : half * F + j);
          w13.set_row(stored * H, weights, H, scale);
        });
}

void fill_gate_up_a(const LatticePlan& plan, const Gauge& gauge, Random& random, ForwardInputs& in) {
  const FastStore a(in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A]);
  const std::int64_t R = in.d.R, H = in.d.H;
  const float scale = power(-gauge.x - gauge.bridge);
  for (std::size_t s = 0; s < plan.slots.size(); ++s) {
    const LatticePlan::Slot& slot = plan.slots[s];
    // Rows of all factors of the slot together: batches of closed rows are then full.
    const auto pattern_of = [&](std::int64_t row) -> const Pattern& {
      return slot.bridges[static_cast<std::size_t>(row / slot.rank)];
    };
    close_rows(
        plan.x, random, slot.rank > 0 ? 2 * plan.outer * slot.rank : 0,
        [&](std::int64_t row, int c) {
          return pattern_of(row).value(slot.type_of[static_cast<std::size_t>(c)], row % slot.rank);
        },
        [&](std::int64_t row, const std::int16_t* weights) {
          const std::int64_t half_of_expert = row / slot.rank, q = row % slot.rank;
          const std::int64_t stored =
              (static_cast<std::int64_t>(s) * 2 * plan.outer + half_of_expert) * R + q;
          a.set_row(stored * H, weights, H, scale);
        });
  }
}

void fill_gate_up_b(const LatticePlan& plan, const Gauge& gauge, Random& random, ForwardInputs& in) {
  const FastStore b(in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B]);
  const std::int64_t R = in.d.R, F = plan.F;
  const std::size_t G = plan.groups.size();
  const float scale = power(gauge.bridge);
  const std::int64_t experts = plan.n / plan.outer;  // that share one bridge
  for (std::size_t s = 0; s < plan.slots.size(); ++s) {
    const LatticePlan::Slot& slot = plan.slots[s];
    for (std::int64_t i = 0; slot.rank > 0 && i < 2 * plan.outer; ++i) {
      const std::int64_t half = i % 2, first = i / 2 * experts;
      close_rows(
          slot.bridges[static_cast<std::size_t>(i)], random, experts * F,
          [&](std::int64_t row, int type) {
            const auto feature = static_cast<std::size_t>(first * F + row);
            const std::size_t k =
                static_cast<std::size_t>(type) * G + static_cast<std::size_t>(plan.group_of[feature]);
            return half == 0 ? plan.gate_unit * slot.gate[k] : plan.rho[feature] * slot.up[k];
          },
          [&](std::int64_t row, const std::int16_t* weights) {
            const std::int64_t e = first + row / F, j = row % F;
            const std::int64_t stored = ((static_cast<std::int64_t>(s) * plan.n + e) * 2 + half) * F + j;
            b.set_row(stored * R, weights, slot.rank, scale);
          });
    }
  }
}

}  // namespace

void fill_lattice(const ForwardCase& c, ForwardInputs& in) {
  const std::uint64_t seed = c.layer.seed;
  const LatticePlan plan(c, in);
  Random choices(seed, 101), w13(seed, 102), a(seed, 103), b(seed, 104);
  const Gauge gauge(choices, in.type);
  fill_tokens(plan, gauge, in);
  fill_w13(plan, gauge, w13, in);
  fill_gate_up_a(plan, gauge, a, in);
  fill_gate_up_b(plan, gauge, b, in);
  fill_lattice_down(c, plan, gauge.w2, gauge.down_a, gauge.w2 - gauge.down_a, in);
}

}  // namespace sinktrap
