#include "reference/sweep.hpp"

#include <algorithm>
#include <cmath>

#include "reference/bound_units.hpp"
#include "reference/certificate.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool power_of_two(double v) {
  int exponent = 0;
  return std::fabs(std::frexp(v, &exponent)) == 0.5;
}

// The one term of an output: which activation, and the product of the weights behind it. No term: factor 0.
struct Term {
  std::int64_t feature = -1;  // e * F + j
  double factor = 0;
  int count = 0;
  void add(std::int64_t f, double v) {
    feature = f;
    factor = v;
    ++count;
  }
};

class Interval {
 public:
  Interval(const Problem& p, const Stages& s, std::int32_t silu_class)
      : p_(p), s_(s), silu_class_(silu_class), format_(float_format(p.type)) {}

  Sweep run() {
    Sweep sweep;
    sweep.why = certify_up_to_y(p_, s_).why;
    if (!sweep.why.empty()) return sweep;
    gammas_ = decode(p_.gamma_type, p_.gammas, p_.T * p_.n);
    sweep.low.assign(at(p_.T * p_.H), 0.0);
    sweep.high = sweep.low;
    for (const Group& g : groups_by_slot(p_)) {
      const std::vector<Term> terms = terms_of(g.slot, sweep.why);
      for (std::size_t i = 0; sweep.why.empty() && i < g.tokens.size(); ++i)
        for (std::int64_t h = 0; h < p_.H && sweep.why.empty(); ++h) {
          const std::int64_t t = g.tokens[i];
          sweep.why = element(t, terms[at(h)], sweep.low[at(t * p_.H + h)], sweep.high[at(t * p_.H + h)]);
        }
      if (!sweep.why.empty()) break;
    }
    return sweep;
  }

 private:
  // Terms of each hidden column for the tokens of a slot.
  std::vector<Term> terms_of(std::int64_t slot, std::string& why) const {
    std::vector<Term> terms(at(p_.H));
    std::vector<float> row(at(p_.F));
    for (std::int64_t e = 0; e < p_.n; ++e)
      for (std::int64_t h = 0; h < p_.H; ++h) {
        decode(p_.type, p_.w2, (e * p_.H + h) * p_.F, p_.F, row.data());
        for (std::int64_t j = 0; j < p_.F; ++j)
          if (row[at(j)] != 0) terms[at(h)].add(e * p_.F + j, row[at(j)]);
      }
    if (slot >= 0) add_adapter(slot, terms, why);
    for (std::size_t h = 0; h < terms.size(); ++h)
      if (terms[h].count > 1 || (terms[h].count == 1 && !power_of_two(terms[h].factor)))
        why = "column " + std::to_string(h) + " of out is not one activation times a power of two";
    return terms;
  }

  void add_adapter(std::int64_t slot, std::vector<Term>& terms, std::string& why) const {
    std::vector<float> row(at(std::max(p_.F, p_.R)));
    std::vector<Term> ranks(at(p_.outer * p_.R));
    for (std::int64_t e = 0; e < p_.n; ++e)
      for (std::int64_t q = 0; q < p_.R; ++q) {
        decode(p_.type, p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], ((slot * p_.n + e) * p_.R + q) * p_.F, p_.F,
               row.data());
        for (std::int64_t j = 0; j < p_.F; ++j)
          if (row[at(j)] != 0) ranks[at((p_.outer == 1 ? 0 : e) * p_.R + q)].add(e * p_.F + j, row[at(j)]);
      }
    for (const Term& r : ranks)
      if (r.count > 1 || (r.count == 1 && !power_of_two(r.factor)))
        why = "a row of down_lora_a is not one power of two";
    for (std::int64_t o = 0; o < p_.outer; ++o)
      for (std::int64_t h = 0; h < p_.H; ++h) {
        decode(p_.type, p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], ((slot * p_.outer + o) * p_.H + h) * p_.R, p_.R,
               row.data());
        for (std::int64_t q = 0; q < p_.R; ++q) {
          const Term& r = ranks[at(o * p_.R + q)];
          if (row[at(q)] != 0 && r.count > 0) terms[at(h)].add(r.feature, r.factor * row[at(q)]);
        }
      }
  }

  std::string element(std::int64_t t, const Term& term, double& low, double& high) const {
    if (term.count == 0) return "";
    const std::int64_t e = term.feature / p_.F, j = term.feature % p_.F;
    const std::int64_t gate = ((t * p_.n + e) * 2) * p_.F + j;
    const double z = s_.y[at(gate)], up = s_.y[at(gate + p_.F)], gamma = gammas_[at(t * p_.n + e)];
    if (!power_of_two(up) || !power_of_two(gamma)) return "an up or a gamma is not a power of two";
    if (!(std::fabs(z) <= kExpEdge / 2)) return "a gate lies where exp may be clamped";
    const double s = silu_f64(z);
    const double error = silu_class_ == SINKTRAP_SILU_ABSOLUTE
                             ? std::fabs(z) * kAbsoluteSilu
                             : (std::fabs(z) + kRelativeOffset) * kRelativeSilu * std::fabs(s);
    const double scale = up * gamma * term.factor;
    double ends[2] = {round_to(p_.type, s - error), round_to(p_.type, s + error)};
    for (double& v : ends) {
      // Each value on the way is this one times a power of two: the extremes decide whether all are normal.
      for (const double factor : {1.0, up, gamma, up * gamma, up * gamma * term.factor})
        if (v != 0 && !is_normal(v * factor)) return "a value leaves the normal range of the storage type";
      if (v == 0 && error > 0) return "silu may be 0 or not";
      v *= scale;
    }
    low = std::min(ends[0], ends[1]);
    high = std::max(ends[0], ends[1]);
    return "";
  }
  bool is_normal(double v) const {
    const int e = std::ilogb(v);
    return e >= format_.min_exponent && e < format_.max_exponent;
  }

  const Problem& p_;
  const Stages& s_;
  const std::int32_t silu_class_;
  const FloatFormat format_;
  std::vector<float> gammas_;
};

}  // namespace

Sweep sweep_interval(const Problem& problem, const Stages& stages, std::int32_t silu_class) {
  return Interval(problem, stages, silu_class).run();
}

}  // namespace sinktrap::reference
