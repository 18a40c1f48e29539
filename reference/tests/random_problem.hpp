// Random forward problems for tests, with the memory behind them.
#pragma once
#include <array>
#include <random>

#include "cases/tensor.hpp"
#include "reference/problem.hpp"

namespace sinktrap::reference::test {

using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}
// Evenly spread over [-scale, scale] on a grid of 2^24 steps: the same with every standard library.
inline double uniform(Random& random, double scale) {
  return scale * (static_cast<double>(random() >> 39) * 0x1p-24 - 1.0);
}
inline void fill(Tensor& t, Random& random, double scale) {
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, uniform(random, scale));
}

struct Dimensions {
  std::int64_t T = 3, n = 2, H = 7, F = 5, S = 2, R = 3, outer = 1;
  std::int32_t w13_layout = SINKTRAP_W13_INTERLEAVED;
  Element type = Element::bf16, gammas = Element::bf16;
};

struct RandomProblem {
  Tensor x, gammas, w13, w2, token_slot;
  std::array<Tensor, SINKTRAP_BUFFER_COUNT> pool;
  Problem problem;

  // Inputs of order 1, weights so that the layer and its adapter both contribute; slots -1..S-1.
  RandomProblem(Random& random, const Dimensions& d)
      : x(d.type, {d.T, d.H}),
        gammas(d.gammas, {d.T, d.n}),
        w13(d.type, {d.n, 2 * d.F, d.H}),
        w2(d.type, {d.n, d.H, d.F}),
        token_slot(Element::i32, {d.T}),
        pool{Tensor(d.type, {d.S, d.outer, 2 * d.R, d.H}), Tensor(d.type, {d.S, d.n, 2 * d.F, d.R}),
             Tensor(d.type, {d.S, d.n, d.R, d.F}), Tensor(d.type, {d.S, d.outer, d.H, d.R})} {
    fill(x, random, 2.0);
    fill(gammas, random, 1.0);
    fill(w13, random, 2.0 / std::sqrt(static_cast<double>(d.H)));
    fill(w2, random, 1.0 / std::sqrt(static_cast<double>(d.F)));
    for (Tensor& t : pool) fill(t, random, 1.0 / std::sqrt(static_cast<double>(t.extent(3))));
    for (std::int64_t t = 0; t < d.T; ++t) token_slot.set(t, static_cast<double>(pick(random, -1, d.S - 1)));
    problem.T = d.T, problem.n = d.n, problem.H = d.H, problem.F = d.F, problem.S = d.S, problem.R = d.R;
    problem.outer = d.outer, problem.w13_layout = d.w13_layout;
    problem.type = d.type, problem.gamma_type = d.gammas;
    attach();
  }
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;

  // Points the problem at the tensors' memory, again after a tensor was replaced.
  void attach() {
    problem.x = x.bytes().data();
    problem.gammas = gammas.bytes().data();
    problem.w13 = w13.bytes().data();
    problem.w2 = w2.bytes().data();
    for (std::size_t b = 0; b < pool.size(); ++b) problem.pool[b] = pool[b].bytes().data();
    problem.token_slot = reinterpret_cast<const std::int32_t*>(token_slot.bytes().data());
  }
};

// Dimensions up to the given sizes, all types and layouts.
inline Dimensions random_dimensions(Random& random, std::int64_t largest) {
  Dimensions d;
  d.T = pick(random, 1, 4);
  d.n = pick(random, 1, 3);
  d.H = pick(random, 1, largest);
  d.F = pick(random, 1, largest);
  d.S = pick(random, 1, 3);
  d.R = pick(random, 1, 8);
  d.outer = pick(random, 0, 1) == 0 ? 1 : d.n;
  d.w13_layout = static_cast<std::int32_t>(pick(random, 0, 1));
  d.type = static_cast<Element>(pick(random, 0, 2));
  d.gammas = pick(random, 0, 1) == 0 ? d.type : Element::f32;
  return d;
}

}  // namespace sinktrap::reference::test
