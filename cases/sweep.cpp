// The sweep: gates walk through [-12, 12] while everything else is exact and every output carries one
// activation times a power of two (reference/sweep.hpp says what follows for legal outputs).
//
//  - Gates are m / 2^(p-4) with integers m, |m| <= 12 2^(p-4) < 2^p, made like the lattice's by closed rows;
//  a token is
//    its class's pattern times 2^-k, which makes finer gates near zero. Half of the gates are drawn small.
//  - up is 2^-k without an adapter and 2, -1, 4 or -2 times that with one: powers of two.
//  - Even rows of out read one feature through w2, odd rows one through one rank of the adapter.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cases/fill.hpp"
#include "cases/fill_store.hpp"
#include "cases/lattice_plan.hpp"

namespace sinktrap {
namespace {

constexpr std::int32_t kUpDeltas[] = {1, -2, 3, -3};  // with the base's 1: 2, -1, 4, -2
constexpr int kBridgePool = 3;                        // bridges stay small integers

class Sweeping {
 public:
  Sweeping(const ForwardCase& c, ForwardInputs& in)
      : c_(c),
        in_(in),
        d_(in.d),
        outer_(in.outer()),
        random_(c.layer.seed, 110),
        range_(lattice_range(in.type)) {
    const int bits = in.type == Element::f16 ? 11 : 8;  // f32 uses the integers of bf16, like the lattice
    fine_ = bits - 4;
    largest_ = 12 << fine_;
  }

  void fill() {
    tokens();
    base();
    for (std::int64_t s = 0; s < d_.S; ++s)
      if (rank(s) > 0) adapter(s);
    down();
  }

 private:
  std::int64_t rank(std::int64_t s) const { return c_.layer.ranks[static_cast<std::size_t>(s)]; }
  float factor() { return static_cast<float>(random_.sign() * (1 << random_.between(0, 2))); }
  static float power(int exponent) { return std::ldexp(1.0f, exponent); }
  Pattern pattern(int classes, std::int64_t width, int pool) {
    if (width == 1) return Pattern::single(random_, 1);
    return Pattern(random_, classes, width, pool, range_.wide, range_.weight);
  }

  void tokens() {
    const std::int64_t T = c_.T(), H = d_.H;
    const auto most = std::max<std::int64_t>(1, std::min({T, H / 2, std::int64_t{kMaxClasses}}));
    classes_ = random_.between(1, static_cast<std::int32_t>(most));
    x_ = pattern(classes_, H, 4);
    const FastStore x(in_.x), gammas(in_.gammas);
    for (std::int64_t t = 0; t < T; ++t) {
      // Every class occurs; f16 has no room for the finest gates.
      const int c = t < classes_ ? static_cast<int>(t) : random_.between(0, classes_ - 1);
      const float scale = power(-random_.between(0, in_.type == Element::f16 ? 2 : 4));
      for (std::int64_t h = 0; h < H; ++h) x.set(t * H + h, scale * static_cast<float>(x_.value(c, h)));
      for (std::int64_t e = 0; e < d_.n; ++e) gammas.set(t * d_.n + e, power(random_.between(0, 2)));
    }
  }

  std::int32_t gate(std::int32_t share) {
    const std::int32_t m = random_.between(-largest_ / 3 * share, largest_ / 3 * share);
    return random_.chance(1, 2) ? m / (4 << random_.between(0, 2)) : m;
  }

  void base() {
    const FastStore w13(in_.w13);
    const std::int64_t F = d_.F, H = d_.H;
    const bool interleaved = in_.w13_layout == SINKTRAP_W13_INTERLEAVED;
    for (int half = 0; half < 2; ++half)
      close_rows(
          x_, random_, d_.n * F, [&](std::int64_t, int) { return half == 0 ? gate(2) : 1; },
          [&](std::int64_t row, const std::int16_t* weights) {
            const std::int64_t e = row / F, j = row % F;
            const std::int64_t at = e * 2 * F + (interleaved ? 2 * j + half : half * F + j);
            const float scale = half == 0 ? power(-fine_) : 1.0f;
            w13.set_row(at * H, weights, H, scale);
          });
  }

  void adapter(std::int64_t s) {
    const FastStore a(in_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A]), b(in_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B]);
    const std::int64_t r = rank(s), R = d_.R, H = d_.H, F = d_.F, experts = d_.n / outer_;
    const int types =
        r < 2 ? 1 : random_.between(1, static_cast<std::int32_t>(std::min<std::int64_t>(classes_, r / 2)));
    for (std::int64_t i = 0; i < 2 * outer_; ++i) {
      const std::int64_t half = i % 2, first = i / 2 * experts;
      const Pattern bridge = pattern(types, r, kBridgePool);
      close_rows(
          x_, random_, r, [&](std::int64_t q, int c) { return bridge.value(c % types, q); },
          [&](std::int64_t q, const std::int16_t* weights) {
            const std::int64_t at = (s * 2 * outer_ + i) * R + q;
            a.set_row(at * H, weights, H, 1.0f);
          });
      close_rows(
          bridge, random_, experts * F,
          [&](std::int64_t, int) { return half == 0 ? gate(1) : kUpDeltas[random_.below(4)]; },
          [&](std::int64_t row, const std::int16_t* weights) {
            const std::int64_t at = ((s * d_.n + first + row / F) * 2 + half) * F + row % F;
            const float scale = half == 0 ? power(-fine_) : 1.0f;
            b.set_row(at * R, weights, r, scale);
          });
    }
  }

  void down() {
    const FastStore w2(in_.w2), a(in_.pool[SINKTRAP_BUFFER_DOWN_LORA_A]),
        b(in_.pool[SINKTRAP_BUFFER_DOWN_LORA_B]);
    const std::int64_t n = d_.n, F = d_.F, H = d_.H, R = d_.R;
    std::vector<std::int32_t> features(static_cast<std::size_t>(n * F));
    std::iota(features.begin(), features.end(), 0);
    random_.shuffle(std::span(features));
    for (std::int64_t h = 0; h < H; h += 2) {
      const std::int64_t f = features[static_cast<std::size_t>(h / 2 % (n * F))];
      w2.set((f / F * H + h) * F + f % F, factor());
    }
    for (std::int64_t s = 0; s < d_.S; ++s) {
      if (rank(s) == 0) continue;
      for (std::int64_t o = 0; o < outer_; ++o)
        for (std::int64_t q = 0; q < rank(s); ++q) {
          const std::int64_t e = outer_ == 1 ? random_.below(static_cast<std::uint32_t>(n)) : o;
          a.set(((s * n + e) * R + q) * F + random_.below(static_cast<std::uint32_t>(F)), factor());
        }
      for (std::int64_t h = 1; h < H; h += 2) {
        const std::int64_t o = random_.below(static_cast<std::uint32_t>(outer_));
        b.set(((s * outer_ + o) * H + h) * R + random_.below(static_cast<std::uint32_t>(rank(s))), factor());
      }
    }
  }

  const ForwardCase& c_;
  ForwardInputs& in_;
  const Dimensions d_;
  const std::int64_t outer_;
  Random random_;
  const LatticeRange range_;
  int fine_ = 4, classes_ = 1;
  std::int32_t largest_ = 192;
  Pattern x_;
};

}  // namespace

void fill_sweep(const ForwardCase& c, ForwardInputs& in) { Sweeping(c, in).fill(); }

}  // namespace sinktrap
