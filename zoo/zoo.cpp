#include "zoo/zoo.hpp"

#include <algorithm>
#include <cmath>

namespace sinktrap::zoo {
namespace {

// exp within 2^-22: 2^k times a polynomial in the rest r, |r| <= ln 2 / 2, of degree 6 (the next term is r^7
// / 5040 < 2^-22.9); infinity and 0 outside the range, as ex2.approx gives.
float fast_exp(float v) {
  if (std::isnan(v)) return v;
  const float t = v * 1.44269504f;
  if (t > 130.0f) return HUGE_VALF;
  if (t < -150.0f) return 0.0f;
  const float k = std::nearbyint(t);
  const float r = std::fma(k, -0.693145752f, v) - k * 1.42860677e-6f;  // ln 2 in two parts
  float q = 1.0f / 720.0f;
  for (const float c : {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f}) q = std::fma(q, r, c);
  return std::ldexp(q, static_cast<int>(k));
}

float wrong_silu(float z, float gamma, Wrong wrong) {
  switch (wrong) {
    case Wrong::hard_swish:
      return z * std::clamp(z / 6.0f + 0.5f, 0.0f, 1.0f);
    case Wrong::gelu:
      return 0.5f * z * (1.0f + std::tanh(0.797884561f * (z + 0.044715f * z * z * z)));
    case Wrong::quick_gelu:
      return z / (1.0f + std::exp(-1.702f * z));
    default:
      return z / (1.0f + std::exp(-z * gamma));
  }
}
bool replaces_silu(Wrong w) {
  return w == Wrong::hard_swish || w == Wrong::gelu || w == Wrong::quick_gelu ||
         w == Wrong::gamma_inside_silu;
}

class Forward {
 public:
  Forward(const Layer& layer, const Choice& choice, Wrong wrong)
      : l_(layer), c_(choice), wrong_(wrong), random_(choice.shuffle) {
    terms_.skip_zeros = choice.skip_zeros;
    for (std::int64_t t = l_.T - 1; t >= 0 && last_adapted_ < 0; --t)
      if (l_.token_slot[at(t)] >= 0) last_adapted_ = t;
  }
  std::vector<double> run() {
    std::vector<double> out;
    out.reserve(at(l_.T * l_.H));
    for (std::int64_t t = 0; t < l_.T; ++t) token(t, out);
    return out;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  bool rounds(std::uint32_t bits) const { return (c_.seams & bits) != 0; }
  float seam(std::uint32_t bit, float v) const { return rounds(bit) ? stored(l_.type, v) : flushed(v); }
  float flushed(float v) const { return c_.flush && std::fabs(v) < 0x1p-126f ? 0.0f : v; }
  float add_up(Sums which, float start = 0.0f) {
    Summation how = c_.sums[static_cast<std::size_t>(which)];
    if (wrong_ == Wrong::storage_accumulation) how.kind = Summation::Kind::storage;
    return sum(how, start, terms_, c_.flush, random_, l_.type);
  }
  std::int64_t outer_of(std::int64_t e) const { return l_.outer == 1 ? 0 : e; }
  std::int64_t hidden() const { return l_.H - (wrong_ == Wrong::last_hidden_column_lost ? 1 : 0); }
  std::int64_t features() const { return l_.F - (wrong_ == Wrong::last_feature_lost ? 1 : 0); }

  void shrink(const float* x) {
    const std::vector<float>& a = l_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A];
    bridge_.resize(at(l_.outer * 2 * l_.R));
    for (std::int64_t i = 0; i < l_.outer * 2 * l_.R; ++i) {
      terms_.clear();
      terms_.add(&a[at((slot_ * l_.outer * 2 * l_.R + i) * l_.H)], x, hidden());
      bridge_[at(i)] = seam(SINKTRAP_SEAM(GATE_UP_BRIDGE), add_up(Sums::gate_up_bridge));
    }
  }

  float gate_up(std::int64_t e, int half, std::int64_t j, const float* x) {
    const std::int64_t row = l_.w13_layout == SINKTRAP_W13_INTERLEAVED ? 2 * j + half : half * l_.F + j;
    const float* base = &l_.w13[at((e * 2 * l_.F + row) * l_.H)];
    const bool adapted = slot_ >= 0;
    const float *b = nullptr, *bridge = nullptr;
    if (adapted) {
      const int of = wrong_ == Wrong::halves_swapped ? 1 - half : half;
      b = &l_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B][at((((slot_ * l_.n + e) * 2 + of) * l_.F + j) * l_.R)];
      bridge = &bridge_[at((outer_of(e) * 2 + half) * l_.R)];
    }
    terms_.clear();
    terms_.add(base, x, hidden());
    if (adapted && c_.one_accumulator && !rounds(SINKTRAP_SEAM(BASE_Y) | SINKTRAP_SEAM(GATE_UP_DELTA))) {
      terms_.add(b, bridge, l_.R);
      return seam(SINKTRAP_SEAM(Y), add_up(Sums::base_y));
    }
    float y = seam(SINKTRAP_SEAM(BASE_Y), add_up(Sums::base_y));
    if (adapted) {
      terms_.clear();
      terms_.add(b, bridge, l_.R);
      y = flushed(y + seam(SINKTRAP_SEAM(GATE_UP_DELTA), add_up(Sums::gate_up_delta)));
    }
    return seam(SINKTRAP_SEAM(Y), y);
  }

  float activation(float gate, float up, float gamma) const {
    const float s = seam(SINKTRAP_SEAM(SILU), flushed(replaces_silu(wrong_) ? wrong_silu(gate, gamma, wrong_)
                                                                            : silu(gate, c_.silu)));
    if (wrong_ == Wrong::gamma_inside_silu) gamma = 1.0f;
    const int order = rounds(SINKTRAP_SEAM(PRODUCT)) ? 0 : c_.factors;
    const float act = order == 0   ? seam(SINKTRAP_SEAM(PRODUCT), flushed(s * up)) * gamma
                      : order == 1 ? s * flushed(up * gamma)
                                   : flushed(s * gamma) * up;
    return seam(SINKTRAP_SEAM(ACT), act);
  }

  void down_shrink() {
    const std::vector<float>& a = l_.pool[SINKTRAP_BUFFER_DOWN_LORA_A];
    const auto row = [&](std::int64_t e, std::int64_t q) {
      return &a[at(((slot_ * l_.n + e) * l_.R + q) * l_.F)];
    };
    down_bridge_.assign(at(l_.outer * l_.R), 0.0f);
    for (std::int64_t o = 0; o < l_.outer; ++o)
      for (std::int64_t q = 0; q < l_.R; ++q) {
        const std::int64_t first = l_.outer == 1 ? 0 : o, last = l_.outer == 1 ? l_.n : o + 1;
        float total = 0;
        terms_.clear();
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t e = c_.experts_reversed ? first + last - 1 - i : i;
          terms_.add(row(e, q), &act_[at(e * l_.F)], features());
          if (wrong_ != Wrong::bridge_rounded_each) continue;
          total += stored(l_.type, add_up(Sums::down_bridge));
          terms_.clear();
        }
        if (wrong_ != Wrong::bridge_rounded_each) total = add_up(Sums::down_bridge);
        down_bridge_[at(o * l_.R + q)] = seam(SINKTRAP_SEAM(DOWN_BRIDGE), total);
      }
  }

  float base_out(std::int64_t h) {
    const auto row = [&](std::int64_t e) { return &l_.w2[at((e * l_.H + h) * l_.F)]; };
    const bool in_one =
        c_.experts_in_one && !rounds(SINKTRAP_SEAM(EXPERT_OUT)) && wrong_ != Wrong::experts_summed_stored;
    float total = 0;
    terms_.clear();
    for (std::int64_t i = 0; i < l_.n; ++i) {
      const std::int64_t e = c_.experts_reversed ? l_.n - 1 - i : i;
      terms_.add(row(e), &act_[at(e * l_.F)], features());
      if (in_one) continue;
      total = flushed(total + seam(SINKTRAP_SEAM(EXPERT_OUT), add_up(Sums::expert_out)));
      if (wrong_ == Wrong::experts_summed_stored) total = stored(l_.type, total);
      terms_.clear();
    }
    if (in_one) total = add_up(Sums::expert_out);
    return seam(SINKTRAP_SEAM(BASE_OUT), total);
  }

  float with_delta(std::int64_t h, float base) {
    const std::vector<float>& b = l_.pool[SINKTRAP_BUFFER_DOWN_LORA_B];
    const float scale = wrong_ == Wrong::scaled_down_delta ? 1.05f : 1.0f;
    const bool chain = c_.one_accumulator && scale == 1.0f && !rounds(SINKTRAP_SEAM(DOWN_DELTA));
    float delta = 0;
    terms_.clear();
    for (std::int64_t o = 0; o < l_.outer; ++o) {
      terms_.add(&b[at(((slot_ * l_.outer + o) * l_.H + h) * l_.R)], &down_bridge_[at(o * l_.R)], l_.R);
      if (chain || c_.delta_summed_first) continue;
      delta = flushed(delta + seam(SINKTRAP_SEAM(DOWN_DELTA), scale * add_up(Sums::down_delta)));
      terms_.clear();
    }
    if (chain) return add_up(Sums::down_delta, base);
    if (c_.delta_summed_first) delta = seam(SINKTRAP_SEAM(DOWN_DELTA), scale * add_up(Sums::down_delta));
    return flushed(base + delta);
  }

  void token(std::int64_t t, std::vector<double>& out) {
    slot_ = l_.token_slot[at(t)];
    if (wrong_ == Wrong::last_token_delta_lost && t == last_adapted_) slot_ = -1;
    const float* x = &l_.x[at(t * l_.H)];
    if (slot_ >= 0) shrink(x);
    act_.resize(at(l_.n * l_.F));
    for (std::int64_t e = 0; e < l_.n; ++e)
      for (std::int64_t j = 0; j < l_.F; ++j) {
        const float gate = gate_up(e, 0, j, x);
        act_[at(e * l_.F + j)] = activation(gate, gate_up(e, 1, j, x), l_.gammas[at(t * l_.n + e)]);
      }
    if (slot_ >= 0) down_shrink();
    for (std::int64_t h = 0; h < l_.H; ++h) {
      const float base = base_out(h);
      out.push_back(stored(l_.type, slot_ >= 0 ? with_delta(h, base) : base));
    }
  }

  const Layer& l_;
  const Choice& c_;
  Wrong wrong_;
  Random random_;
  std::int64_t slot_ = -1, last_adapted_ = -1;
  Terms terms_;
  std::vector<float> bridge_, act_, down_bridge_;
};

}  // namespace

float silu(float z, Silu how) {
  switch (how) {
    case Silu::division:
      return z / (1.0f + std::exp(-z));
    case Silu::reciprocal:
      return z * (1.0f / (1.0f + std::exp(-z)));
    case Silu::exp2:
      return z / (1.0f + std::exp2(-z * 1.44269504f));
    case Silu::fast_exp:
      return z / (1.0f + fast_exp(-z));
    case Silu::two_sided: {
      const float a = std::exp(-std::fabs(z)), s = 1.0f / (1.0f + a);
      return z * (z >= 0 ? s : a * s);
    }
    case Silu::wide:
      return static_cast<float>(z / (1.0 + std::exp(-static_cast<double>(z))));
    case Silu::tanh:
      return z * (0.5f + 0.5f * std::tanh(0.5f * z));
  }
  return z;
}

std::vector<float> decoded(const Tensor& t) {
  std::vector<float> v(static_cast<std::size_t>(t.size()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(t.at(static_cast<std::int64_t>(i)));
  return v;
}

Layer layer_of(const ForwardInputs& in) {
  Layer l;
  l.T = in.T(), l.n = in.d.n, l.H = in.d.H, l.F = in.d.F, l.R = in.d.R, l.outer = in.outer();
  l.w13_layout = in.w13_layout, l.type = in.type;
  l.x = decoded(in.x), l.gammas = decoded(in.gammas), l.w13 = decoded(in.w13), l.w2 = decoded(in.w2);
  for (std::size_t i = 0; i < l.pool.size(); ++i) l.pool[i] = decoded(in.pool[i]);
  for (std::int64_t t = 0; t < l.T; ++t)
    l.token_slot.push_back(static_cast<std::int32_t>(in.token_slot.at(t)));
  return l;
}

std::vector<double> forward(const Layer& layer, const Choice& choice, Wrong wrong) {
  return Forward(layer, choice, wrong).run();
}

}  // namespace sinktrap::zoo
