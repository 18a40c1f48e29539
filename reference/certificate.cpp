#include "reference/certificate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "reference/magnitude.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

// Exponents of the highest and the lowest set bit of a normal double. (ilogb is a call that costs more than
// the rest of a certificate.) A subnormal double comes out far below every format's range, infinity and NaN
// above.
int highest_bit(double v) { return static_cast<int>(std::bit_cast<std::uint64_t>(v) >> 52 & 0x7ff) - 1023; }
int lowest_bit(double v) {
  const auto significand = std::bit_cast<std::uint64_t>(v) | std::uint64_t{1} << 52;
  return highest_bit(v) - 52 + std::countr_zero(significand);
}
int significant_bits(double v) { return v == 0.0 ? 0 : highest_bit(v) - lowest_bit(v) + 1; }

// Zero or a normal number of the format, exactly. (A subnormal one may be flushed.)
bool fits(double v, const FloatFormat& f) {
  if (v == 0.0) return true;
  const int exponent = highest_bit(v);
  return exponent >= f.min_exponent && exponent <= f.max_exponent &&
         exponent - lowest_bit(v) < f.significant_bits;
}

// An accumulation: a bound on its sum of |w||x|, and the exponent that all its terms are multiples of.
struct Accumulation {
  double bound = 0;
  int granule = kNoGranule;
  // Adds a dot product. Cauchy-Schwarz, or one factor at its largest; what rounding could take away is added.
  void add(const Magnitude& w, const Magnitude& x) {
    if (w.granule >= kNoGranule || x.granule >= kNoGranule) return;
    granule = std::min(granule, w.granule + x.granule);
    bound += std::min({w.norm * x.norm, w.sum * x.largest, w.largest * x.sum}) * (1.0 + 0x1p-30);
  }
};

double power_of_two(int exponent) {  // of a normal double
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Every partial sum, in any order, is a multiple of the granule and, below 2^24 of them, exact in f32. Half
// of that is kept in reserve for accumulators that drop low bits of an aligned sum. From 2^-126 on a granule
// is a normal number, so that flushing changes nothing; 2^127 keeps a sum finite.
bool exact_in_f32(double sum, int granule) {
  if (sum == 0.0) return true;
  return granule >= -126 && sum < 0x1p127 && sum <= power_of_two(granule + 23);
}

// Rows of one slot's four buffers, as stored.
struct Slot {
  std::vector<Magnitude> gate_up_a, gate_up_b, down_a, down_b;
};

class Certifier {
 public:
  Certifier(const Problem& p, const Stages& s)
      : p_(p),
        s_(s),
        storage_(float_format(p.type)),
        groups_(groups_by_slot(p)),
        products_(p, Weights::magnitude) {
    for (std::int64_t t = 0; t < p.T; ++t) every_token_.push_back(t);
    group_of_.resize(static_cast<std::size_t>(p.T));
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::int64_t t : groups_[g].tokens) group_of_[static_cast<std::size_t>(t)] = g;
  }

  // The conditions in the order of computation: each relies on those before it.
  std::string first_failure() {
    (void)(up_to_y() && activations() && seam("silu", s_.silu) && seam("product", s_.product) &&
           seam("act", s_.act) && seam("down_bridge", s_.down_bridge) && seam("down_delta", s_.down_delta) &&
           summed_down_delta() && seam("expert_out", s_.expert_out) && seam("base_out", s_.base_out) &&
           seam("out", s_.out) && down_bridge_sums() && out_sums());
    return why_;
  }

  std::string first_failure_up_to_y() {
    (void)up_to_y();
    return why_;
  }

 private:
  bool up_to_y() {
    return inputs_fit() && seam("base_y", s_.base_y) && seam("gate_up_bridge", s_.bridge) &&
           seam("gate_up_delta", s_.delta) && seam("y", s_.y) && bridge_sums() && y_sums();
  }
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // Rows of a stored matrix: all values fit, and their magnitudes.
  bool rows(const char* name, const void* data, std::int64_t first, std::int64_t count, std::int64_t width,
            std::vector<Magnitude>& out) {
    std::vector<float> row(static_cast<std::size_t>(width));
    const auto smallest = std::bit_cast<std::uint32_t>(std::ldexp(1.0f, storage_.min_exponent));
    const auto infinity = std::bit_cast<std::uint32_t>(HUGE_VALF);
    out.clear();
    out.reserve(at(count));
    for (std::int64_t i = first; i < first + count; ++i) {
      decode(p_.type, data, i * width, width, row.data());
      const Magnitude& m = out.emplace_back(magnitude_of(row.data(), width));
      // What is stored fits in significant bits; left are subnormals, infinity and NaN.
      if (m.highest_bits == 0 || (m.lowest_bits >= smallest && m.highest_bits < infinity)) continue;
      std::int64_t k = 0;
      while (fits(row[at(k)], storage_)) ++k;
      return refuse("input " + std::string(name) + " element " + std::to_string(i * width + k) +
                    " is not zero or a normal number");
    }
    return true;
  }

  // Everything that a token reaches; slots that no token uses are not looked at.
  bool inputs_fit() {
    const std::vector<float> gammas = decode(p_.gamma_type, p_.gammas, p_.T * p_.n);
    gammas_.assign(gammas.begin(), gammas.end());
    for (std::size_t i = 0; i < gammas_.size(); ++i)
      if (!fits(gammas_[i], float_format(p_.gamma_type)))
        return refuse("input gammas element " + std::to_string(i) + " is not zero or a normal number");
    if (p_.T == 0) return true;
    if (!rows("x", p_.x, 0, p_.T, p_.H, x_) || !rows("w13", p_.w13, 0, p_.n * 2 * p_.F, p_.H, w13_) ||
        !rows("w2", p_.w2, 0, p_.n * p_.H, p_.F, w2_))
      return false;
    slots_.resize(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::int64_t slot = groups_[g].slot;
      if (slot < 0) continue;
      Slot& s = slots_[g];
      const std::int64_t a = p_.outer * 2 * p_.R, b = p_.n * 2 * p_.F, c = p_.n * p_.R, d = p_.outer * p_.H;
      if (!rows("gate_up_lora_a", p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A], slot * a, a, p_.H, s.gate_up_a) ||
          !rows("gate_up_lora_b", p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], slot * b, b, p_.R, s.gate_up_b) ||
          !rows("down_lora_a", p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], slot * c, c, p_.F, s.down_a) ||
          !rows("down_lora_b", p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], slot * d, d, p_.R, s.down_b))
        return false;
    }
    return true;
  }

  bool seam(const char* name, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!fits(values[i], storage_))
        return refuse("seam " + std::string(name) + " element " + std::to_string(i) +
                      " does not fit the storage type");
    return true;
  }

  // All accumulations of one kind, `width` for each token: describe(t, i) bounds one. Where a bound is not
  // enough, the sums of magnitudes themselves decide; sums() computes them.
  template <class Describe, class Sums>
  bool sums_fit(const char* name, std::int64_t width, Describe describe, Sums sums) {
    std::vector<double> exact;
    for (std::int64_t t = 0; t < p_.T; ++t)
      for (std::int64_t i = 0; i < width; ++i) {
        const Accumulation a = describe(t, i);
        if (exact_in_f32(a.bound, a.granule)) continue;
        if (exact.empty()) {
          exact.resize(static_cast<std::size_t>(p_.T * width));
          sums(exact.data());
        }
        if (!exact_in_f32(exact[static_cast<std::size_t>(t * width + i)], a.granule))
          return refuse("sum " + std::string(name) + " element " + std::to_string(t * width + i) +
                        " may be inexact in f32");
      }
    return true;
  }

  const Slot* slot_of(std::int64_t t) const {
    const std::size_t g = group_of_[static_cast<std::size_t>(t)];
    return groups_[g].slot < 0 ? nullptr : &slots_[g];
  }
  std::int64_t outer_of(std::int64_t e) const { return p_.outer == 1 ? 0 : e; }

  // Magnitudes of the vectors of a stage, `width` values each. The stage fits the storage type, hence f32.
  static std::vector<Magnitude> vectors(const std::vector<double>& stage, std::int64_t width) {
    const std::vector<float> narrow(stage.begin(), stage.end());
    std::vector<Magnitude> m;
    for (std::size_t i = 0; i < narrow.size(); i += at(width))
      m.push_back(magnitude_of(narrow.data() + i, width));
    return m;
  }
  static std::vector<double> absolute(std::vector<double> v) {
    for (double& value : v) value = std::fabs(value);
    return v;
  }
  std::vector<double> absolute_x() const {
    const std::vector<float> x = decode(p_.type, p_.x, p_.T * p_.H);
    return absolute({x.begin(), x.end()});
  }

  bool bridge_sums() {
    const std::int64_t width = p_.outer * 2 * p_.R;
    return sums_fit(
        "gate_up_bridge", width,
        [&](std::int64_t t, std::int64_t i) {
          Accumulation a;
          if (const Slot* s = slot_of(t)) a.add(s->gate_up_a[at(i)], x_[at(t)]);
          return a;
        },
        [&](double* out) {
          const std::vector<double> x = absolute_x();
          for (const Group& g : groups_)
            if (g.slot >= 0) products_.bridge(g, x.data(), out);
        });
  }

  // Base plus LoRA in one accumulator, which bounds each of them too.
  bool y_sums() {
    const std::vector<Magnitude> bridges = vectors(s_.bridge, p_.R);  // [T, outer, 2]
    return sums_fit(
        "y", p_.n * 2 * p_.F,
        [&](std::int64_t t, std::int64_t i) {
          const std::int64_t e = i / (2 * p_.F), half = i / p_.F % 2, j = i % p_.F;
          Accumulation a;
          a.add(w13_[at(e * 2 * p_.F + p_.w13_row(static_cast<int>(half), j))], x_[at(t)]);
          if (const Slot* s = slot_of(t))
            a.add(s->gate_up_b[at(i)], bridges[at((t * p_.outer + outer_of(e)) * 2 + half)]);
          return a;
        },
        [&](double* out) {
          const std::vector<double> x = absolute_x(), bridge = absolute(s_.bridge);
          products_.base_y(every_token_, x.data(), out);
          for (const Group& g : groups_)
            if (g.slot >= 0) products_.delta(g, bridge.data(), out);
        });
  }

  // Gates where silu is the identity or zero, and three factors whose products, in any order, are exact in
  // f32.
  bool activations() {
    const FloatFormat f32 = float_format(Element::f32);
    for (std::int64_t te = 0; te < p_.T * p_.n; ++te) {
      const double gamma = gammas_[at(te)];
      const int gamma_bits = significant_bits(gamma);
      for (std::int64_t j = 0; j < p_.F; ++j) {
        const double gate = s_.y[at(te * 2 * p_.F + j)], up = s_.y[at((te * 2 + 1) * p_.F + j)];
        const auto where = [&] { return " at element " + std::to_string(te * p_.F + j); };
        if (!(gate >= 40.0 || gate <= -128.0)) return refuse("gate between -128 and 40" + where());
        const double silu = s_.silu[at(te * p_.F + j)];
        if (significant_bits(silu) + significant_bits(up) + gamma_bits > f32.significant_bits)
          return refuse("silu * up * gamma has more than 24 significant bits" + where());
        if (!fits(silu * gamma, f32) || !fits(up * gamma, f32))
          return refuse("a product with gamma leaves the normal range of f32" + where());
      }
    }
    return true;
  }

  // The outer terms of down_delta may also be summed before they are rounded.
  bool summed_down_delta() {
    std::vector<double> sum(at(p_.T * p_.H));
    for (std::int64_t to = 0; to < p_.T * p_.outer; ++to)
      for (std::int64_t h = 0; h < p_.H; ++h)
        sum[at(to / p_.outer * p_.H + h)] += s_.down_delta[at(to * p_.H + h)];
    return seam("down_delta (summed)", sum);
  }

  bool down_bridge_sums() {
    act_ = vectors(s_.act, p_.F);  // [T, n]
    return sums_fit(
        "down_bridge", p_.outer * p_.R,
        [&](std::int64_t t, std::int64_t i) {
          Accumulation a;
          const Slot* s = slot_of(t);
          if (s == nullptr) return a;
          const std::int64_t o = i / p_.R, q = i % p_.R;
          const std::int64_t first = p_.outer == 1 ? 0 : o, last = p_.outer == 1 ? p_.n : o + 1;
          for (std::int64_t e = first; e < last; ++e)
            a.add(s->down_a[at(e * p_.R + q)], act_[at(t * p_.n + e)]);
          return a;
        },
        [&](double* out) {
          const std::vector<double> act = absolute(s_.act);
          for (const Group& g : groups_)
            if (g.slot >= 0) products_.down_bridge(g, act.data(), out);
        });
  }

  // All experts and all outer terms in one accumulator.
  bool out_sums() {
    const std::vector<Magnitude> bridges = vectors(s_.down_bridge, p_.R);  // [T, outer]
    return sums_fit(
        "out", p_.H,
        [&](std::int64_t t, std::int64_t h) {
          Accumulation a;
          for (std::int64_t e = 0; e < p_.n; ++e) a.add(w2_[at(e * p_.H + h)], act_[at(t * p_.n + e)]);
          if (const Slot* s = slot_of(t))
            for (std::int64_t o = 0; o < p_.outer; ++o)
              a.add(s->down_b[at(o * p_.H + h)], bridges[at(t * p_.outer + o)]);
          return a;
        },
        [&](double* out) {
          const std::vector<double> act = absolute(s_.act), bridge = absolute(s_.down_bridge);
          std::vector<double> expert(at(p_.T * p_.n * p_.H)), delta(at(p_.T * p_.outer * p_.H));
          products_.expert_out(every_token_, act.data(), expert.data());
          for (const Group& g : groups_)
            if (g.slot >= 0) products_.down_delta(g, bridge.data(), delta.data());
          add_middle(expert, p_.n, out);
          add_middle(delta, p_.outer, out);
        });
  }
  // [T, count, H] added to [T, H].
  void add_middle(const std::vector<double>& terms, std::int64_t count, double* out) const {
    for (std::int64_t i = 0; i < p_.T * count; ++i)
      for (std::int64_t h = 0; h < p_.H; ++h) out[i / count * p_.H + h] += terms[at(i * p_.H + h)];
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  const Problem& p_;
  const Stages& s_;
  const FloatFormat storage_;
  const std::vector<Group> groups_;
  const Products<double> products_;
  std::vector<std::int64_t> every_token_;
  std::vector<std::size_t> group_of_;    // [T]
  std::vector<double> gammas_;           // [T, n]
  std::vector<Magnitude> x_, w13_, w2_;  // rows as stored
  std::vector<Slot> slots_;              // of each group
  std::vector<Magnitude> act_;           // [T, n]
  std::string why_;
};

}  // namespace

Certificate certify(const Problem& problem, const Stages& stages) {
  std::string why = Certifier(problem, stages).first_failure();
  return {why.empty(), std::move(why)};
}

Certificate certify_up_to_y(const Problem& problem, const Stages& stages) {
  std::string why = Certifier(problem, stages).first_failure_up_to_y();
  return {why.empty(), std::move(why)};
}

}  // namespace sinktrap::reference
