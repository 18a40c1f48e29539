// Primitive suspects that are no change of one tensor: another activation, another slot, another rank.
#include <fmt/format.h>

#include <algorithm>

#include "gate/suspects.hpp"

namespace sinktrap {
namespace {

using reference::Stages;

// Rows in use in the first half of gate_up_lora_a: what an engine takes for an adapter's rank.
std::int64_t rank_of(const ForwardInputs& in, std::int64_t s, std::int64_t outer = 0) {
  const Tensor& a = in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A];
  const std::int64_t first = (s * in.outer() + outer) * 2 * in.d.R * in.d.H;
  for (std::int64_t i = in.d.R * in.d.H; i > 0; --i)
    if (a.at(first + i - 1) != 0) return (i - 1) / in.d.H + 1;
  return 0;
}

}  // namespace

// What becomes of one activation: gate, up and gamma of an element.
void add_activation_primitives(std::vector<Primitive>& list) {
  struct Row {
    const char* what;
    double (*act)(double gate, double up, double gamma);
  };
  static constexpr Row rows[] = {
      {"silu is missing", [](double g, double u, double w) { return g * u * w; }},
      {"silu is applied to up", [](double g, double u, double w) { return g * reference::silu_f64(u) * w; }},
      {"silu is applied to gate and up",
       [](double g, double u, double w) { return reference::silu_f64(g) * reference::silu_f64(u) * w; }},
      {"the factor z of silu is missing",
       [](double g, double u, double w) { return (g > 0 ? 1.0 : 0.0) * u * w; }},
      {"the factor up is missing", [](double g, double, double w) { return reference::silu_f64(g) * w; }},
      {"up is added, not multiplied",
       [](double g, double u, double w) { return (reference::silu_f64(g) + u) * w; }},
      {"gamma is missing", [](double g, double u, double) { return reference::silu_f64(g) * u; }},
      {"gamma counts twice", [](double g, double u, double w) { return reference::silu_f64(g) * u * w * w; }},
      {"gamma multiplies gate", [](double g, double u, double w) { return reference::silu_f64(g * w) * u; }},
      {"gates are clamped to -7..7",
       [](double g, double u, double w) { return reference::silu_f64(std::clamp(g, -7.0, 7.0)) * u * w; }},
  };
  for (const Row& row : rows)
    for (const bool adapter : {false, true})
      list.push_back({fmt::format("{}: {}", adapter ? "act of the adapter" : "act", row.what),
                      adapter ? Place::expert_out : Place::activation,
                      {},
                      [act = row.act](const ForwardInputs& in, Stages& s) {
                        const auto F = static_cast<std::size_t>(in.d.F);
                        for (std::size_t i = 0; i < s.act.size(); ++i) {
                          const std::size_t te = i / F, j = i % F;
                          s.act[i] = act(s.y[te * 2 * F + j], s.y[(te * 2 + 1) * F + j],
                                         in.gammas.at(static_cast<std::int64_t>(te)));
                        }
                      }});
}

void add_routing_primitives(std::vector<Primitive>& list) {
  struct Row {
    const char* what;
    std::int64_t (*slot)(const ForwardInputs&, std::int64_t t);
  };
  static constexpr auto own = [](const ForwardInputs& in, std::int64_t t) {
    return static_cast<std::int64_t>(in.token_slot.at(t));
  };
  static constexpr Row rows[] = {
      {"the next slot, cyclically",
       [](const ForwardInputs& in, std::int64_t t) {
         return own(in, t) < 0 ? -1 : (own(in, t) + 1) % in.d.S;
       }},
      {"the slot before, cyclically",
       [](const ForwardInputs& in, std::int64_t t) {
         return own(in, t) < 0 ? -1 : (own(in, t) + in.d.S - 1) % in.d.S;
       }},
      {"-1 is slot 0",
       [](const ForwardInputs& in, std::int64_t t) { return std::max<std::int64_t>(own(in, t), 0); }},
      {"-1 is the last slot",
       [](const ForwardInputs& in, std::int64_t t) { return own(in, t) < 0 ? in.d.S - 1 : own(in, t); }},
      {"slot 0 for every token that has one",
       [](const ForwardInputs& in, std::int64_t t) { return std::min<std::int64_t>(own(in, t), 0); }},
      {"slot 0 for every token", [](const ForwardInputs&, std::int64_t) { return std::int64_t{0}; }},
      {"no token gets an adapter", [](const ForwardInputs&, std::int64_t) { return std::int64_t{-1}; }},
      {"the slot of token 0 for all", [](const ForwardInputs& in, std::int64_t) { return own(in, 0); }},
      {"the slot of the token before",
       [](const ForwardInputs& in, std::int64_t t) { return own(in, std::max<std::int64_t>(t - 1, 0)); }},
      {"the slot of the next token",
       [](const ForwardInputs& in, std::int64_t t) { return own(in, std::min(t + 1, in.T() - 1)); }},
      {"the slots in reverse order",
       [](const ForwardInputs& in, std::int64_t t) { return own(in, in.T() - 1 - t); }},
      {"the last token is served by the base model",
       [](const ForwardInputs& in, std::int64_t t) { return t + 1 == in.T() ? -1 : own(in, t); }},
      {"the first token is served by the base model",
       [](const ForwardInputs& in, std::int64_t t) { return t == 0 ? -1 : own(in, t); }},
      {"slot 0 means no adapter",
       [](const ForwardInputs& in, std::int64_t t) { return own(in, t) == 0 ? -1 : own(in, t); }},
      {"an all-zero slot is served by the one before it",
       [](const ForwardInputs& in, std::int64_t t) {
         const std::int64_t s = own(in, t);
         return s > 0 && rank_of(in, s) == 0 ? s - 1 : s;
       }},
      {"the slots sorted",
       [](const ForwardInputs& in, std::int64_t t) {
         std::vector<double> slots = in.token_slot.values();
         std::sort(slots.begin(), slots.end());
         return static_cast<std::int64_t>(slots[static_cast<std::size_t>(t)]);
       }},
  };
  for (const Row& row : rows)
    list.push_back({fmt::format("token_slot: {}", row.what),
                    Place::inputs,
                    [slot = row.slot](ForwardInputs& in) {
                      Tensor changed = in.token_slot;
                      for (std::int64_t t = 0; t < in.T(); ++t)
                        changed.set(t, static_cast<double>(slot(in, t)));
                      in.token_slot = changed;
                    },
                    {}});
  list.push_back({"gate_up_lora_a: the up half at row r in place of R",
                  Place::inputs,
                  [](ForwardInputs& in) {
                    Tensor& a = in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A];
                    const Tensor old = a;
                    const std::int64_t half = in.d.R * in.d.H;
                    for (std::int64_t so = 0; so < in.d.S * in.outer(); ++so) {
                      const std::int64_t up = (so * 2 + 1) * half,
                                         from = so * 2 * half +
                                                rank_of(in, so / in.outer(), so % in.outer()) * in.d.H;
                      for (std::int64_t i = 0; i < half; ++i) a.set(up + i, old.at(from + i));
                    }
                  },
                  {}});
}

}  // namespace sinktrap
