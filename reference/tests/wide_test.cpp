// CONTRACT.md section 5 once more, index by index in 256-bit arithmetic: the f64 pass agrees with it to the
// rounding of f64, and rounded outputs agree exactly on the lattice.
#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>

#include "cases/inputs.hpp"
#include "cases/random.hpp"
#include "judge/expectation.hpp"
#include "reference/forward.hpp"

namespace sinktrap::reference {
namespace {

// 237 significant bits: IEEE binary256.
using Wide = boost::multiprecision::number<
    boost::multiprecision::cpp_bin_float<237, boost::multiprecision::digit_base_2, void, std::int32_t,
                                         -262142, 262143>,
    boost::multiprecision::et_off>;

struct Sum {
  Wide value = 0, magnitude = 0;  // the sum, and the sum of magnitudes that bounds how f64 may err
  void add(const Wide& w, const Sum& v) {
    value += w * v.value;
    magnitude += abs(w) * v.magnitude;
  }
  void add(const Sum& v) {
    value += v.value;
    magnitude += v.magnitude;
  }
};
Sum exact(double v) { return {v, std::fabs(v)}; }

class WideForward {
 public:
  explicit WideForward(const ForwardInputs& in) : in_(in), d_(in.d), outer_(in.outer()) {}

  // out[t][h]
  Sum out(std::int64_t t, std::int64_t h) {
    if (t != token_) prepare(t);
    Sum sum;
    for (std::int64_t e = 0; e < d_.n; ++e)
      for (std::int64_t j = 0; j < d_.F; ++j)
        sum.add(in_.w2.at((e * d_.H + h) * d_.F + j), act_[static_cast<std::size_t>(e * d_.F + j)]);
    const Tensor& b = in_.pool[SINKTRAP_BUFFER_DOWN_LORA_B];
    for (std::int64_t o = 0; slot_ >= 0 && o < outer_; ++o)
      for (std::int64_t q = 0; q < d_.R; ++q)
        sum.add(b.at(((slot_ * outer_ + o) * d_.H + h) * d_.R + q), bridge(o, q));
    return sum;
  }

 private:
  void prepare(std::int64_t t) {
    token_ = t;
    slot_ = static_cast<std::int64_t>(in_.token_slot.at(t));
    act_.clear();
    for (std::int64_t e = 0; e < d_.n; ++e)
      for (std::int64_t j = 0; j < d_.F; ++j) {
        const Sum gate = y(e, 0, j), up = y(e, 1, j);
        const Wide s = gate.value / (1 + exp(-gate.value)), gamma = in_.gammas.at(t * d_.n + e);
        // |silu'| < 1.1: what the gate may be off reaches the product with up.
        act_.push_back(
            {s * up.value * gamma, abs(gamma) * ((abs(s) + gate.magnitude * Wide(1.1)) * up.magnitude)});
      }
  }
  Sum y(std::int64_t e, int half, std::int64_t j) {
    const std::int64_t row = in_.w13_layout == SINKTRAP_W13_INTERLEAVED ? 2 * j + half : half * d_.F + j;
    Sum sum;
    for (std::int64_t h = 0; h < d_.H; ++h)
      sum.add(in_.w13.at((e * 2 * d_.F + row) * d_.H + h), exact(in_.x.at(token_ * d_.H + h)));
    const std::int64_t o = outer_ == 1 ? 0 : e;
    for (std::int64_t q = 0; slot_ >= 0 && q < d_.R; ++q) {
      Sum bridge;
      for (std::int64_t h = 0; h < d_.H; ++h)
        bridge.add(in_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A].at(
                       ((slot_ * outer_ + o) * 2 * d_.R + half * d_.R + q) * d_.H + h),
                   exact(in_.x.at(token_ * d_.H + h)));
      sum.add(in_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].at(
                  ((slot_ * d_.n + e) * 2 * d_.F + half * d_.F + j) * d_.R + q),
              bridge);
    }
    return sum;
  }
  Sum bridge(std::int64_t o, std::int64_t q) {
    Sum sum;
    for (std::int64_t e = 0; e < d_.n; ++e)
      for (std::int64_t j = 0; (outer_ == 1 || o == e) && j < d_.F; ++j)
        sum.add(in_.pool[SINKTRAP_BUFFER_DOWN_LORA_A].at(((slot_ * d_.n + e) * d_.R + q) * d_.F + j),
                act_[static_cast<std::size_t>(e * d_.F + j)]);
    return sum;
  }

  const ForwardInputs& in_;
  const Dimensions d_;
  const std::int64_t outer_;
  std::int64_t token_ = -1, slot_ = -1;
  std::vector<Sum> act_;
};

ForwardCase small_case(Random& random, Fill fill) {
  ForwardCase c;
  c.layer.d = {random.between(1, 3), random.between(1, 9), random.between(1, 6), random.between(1, 4),
               random.between(1, 3)};
  c.layer.layout = c.layer.d.n > 1 && random.chance(1, 2) ? ExpertLayout::per_expert : ExpertLayout::shared;
  c.layer.w13 = random.chance(1, 2) ? SINKTRAP_W13_CONTIGUOUS : SINKTRAP_W13_INTERLEAVED;
  c.layer.type = static_cast<Element>(random.below(3));
  c.layer.gammas = c.layer.type;
  for (std::int64_t s = 0; s < c.layer.d.S; ++s)
    c.layer.ranks.push_back(random.between(0, static_cast<std::int32_t>(c.layer.d.R)));
  for (int t = random.between(1, 3); t > 0; --t)
    c.slots.push_back(random.between(-1, static_cast<std::int32_t>(c.layer.d.S) - 1));
  c.layer.fill = fill;
  c.layer.seed = random.next();
  return c;
}

TEST(Wide, TheF64PassAgreesWith256Bits) {
  Random random(256);
  double worst = 0;
  std::int64_t compared = 0;
  for (int k = 0; k < 150; ++k) {
    const ForwardCase c = small_case(random, Fill::dense);
    const ForwardInputs in = make_inputs(c);
    const Stages s = forward_f64(problem_of(in));
    WideForward wide(in);
    for (std::int64_t t = 0; t < in.T(); ++t)
      for (std::int64_t h = 0; h < in.d.H; ++h) {
        const Sum exact = wide.out(t, h);
        const auto off =
            static_cast<double>(abs(exact.value - s.out[static_cast<std::size_t>(t * in.d.H + h)]));
        const auto magnitude = static_cast<double>(exact.magnitude);
        // Three sums of fewer than 64 terms and an exp of a few ulps: within 64 2^-53 of the magnitudes.
        ASSERT_LE(off, 64 * 0x1p-53 * magnitude) << print_case(c) << " out[" << t << "," << h << "]";
        if (magnitude > 0) worst = std::max(worst, off / magnitude);
        ++compared;
      }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(worst, 0);  // the two are not the same computation
  std::printf("%lld outputs, largest difference %.3g of the magnitudes\n", static_cast<long long>(compared),
              worst);
}

TEST(Wide, LatticeOutputsAreTheSameNumbers) {
  Random random(257);
  for (int k = 0; k < 150; ++k) {
    const ForwardCase c = small_case(random, Fill::lattice);
    const ForwardInputs in = make_inputs(c);
    const Stages s = forward_f64(problem_of(in));
    WideForward wide(in);
    for (std::int64_t t = 0; t < in.T(); ++t)
      for (std::int64_t h = 0; h < in.d.H; ++h) {
        const auto value = static_cast<double>(wide.out(t, h).value);
        const double found = s.out[static_cast<std::size_t>(t * in.d.H + h)];
        // silu(z <= -128) is not quite 0 and silu(z >= 40) not quite z in 256 bits: 2^-57 of what is summed.
        ASSERT_EQ(round_to(Element::f32, value), found) << print_case(c);
      }
  }
}

}  // namespace
}  // namespace sinktrap::reference
