#include "reference/power.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "reference/forward_steps.hpp"

namespace sinktrap::reference {
namespace {

constexpr double kScale =
    1.05;  // most of such a delta lies below an absolute tolerance (see scaled_down_delta)

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A few tokens of a problem with their own memory.
struct Tokens {
  std::vector<std::int64_t> index;  // in the whole batch, ascending
  std::vector<std::byte> x, gammas;
  std::vector<std::int32_t> token_slot;
  Problem problem;

  Tokens(const Problem& whole, std::vector<std::int64_t> chosen) : index(std::move(chosen)), problem(whole) {
    const auto rows = [&](const void* from, std::int64_t bytes) {
      std::vector<std::byte> to(at(bytes) * index.size());
      for (std::size_t i = 0; i < index.size(); ++i)
        std::memcpy(to.data() + i * at(bytes), static_cast<const std::byte*>(from) + index[i] * bytes,
                    at(bytes));
      return to;
    };
    x = rows(whole.x, whole.H * element_bytes(whole.type));
    gammas = rows(whole.gammas, whole.n * element_bytes(whole.gamma_type));
    for (const std::int64_t t : index) token_slot.push_back(whole.token_slot[t]);
    problem.T = static_cast<std::int64_t>(index.size());
    problem.x = x.data();
    problem.gammas = gammas.data();
    problem.token_slot = token_slot.data();
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;
};

std::vector<std::int64_t> chosen_tokens(const Problem& p) {
  std::vector<std::int64_t> chosen;
  if (p.T == 0) return chosen;
  // First the first token of every slot, then more of each until there are enough.
  std::map<std::int32_t, std::int64_t> taken;
  std::int64_t last = -1;
  for (std::int64_t t = 0; t < p.T; ++t)
    if (p.token_slot[t] >= 0) last = t;
  for (std::int64_t round = 1; round <= kPowerTokens; ++round)
    for (std::int64_t t = 0; t < p.T && static_cast<std::int64_t>(chosen.size()) < kPowerTokens; ++t) {
      if (std::find(chosen.begin(), chosen.end(), t) != chosen.end()) continue;
      std::int64_t& count = taken[p.token_slot[t]];
      if (count >= round) continue;
      ++count;
      chosen.push_back(t);
    }
  if (last >= 0 && std::find(chosen.begin(), chosen.end(), last) == chosen.end()) chosen.back() = last;
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

class Tamper {
 public:
  Tamper(const Tokens& tokens, const std::vector<double>* error)
      : t_(tokens), p_(tokens.problem), steps_(p_), right_(forward_f64(p_)), error_(error) {
    for (std::int64_t t = 0; t < p_.T; ++t)
      if (p_.token_slot[t] >= 0) last_adapted_ = t;
  }

  Power run() {
    const bool adapted = last_adapted_ >= 0;
    if (p_.T == 0) return power_;
    if (adapted) {
      const std::vector<double> base = without_adapters();
      note(FaultKind::missing_delta, base);
      std::vector<double> one = right_.out;
      std::copy_n(base.begin() + last_adapted_ * p_.H, p_.H, one.begin() + last_adapted_ * p_.H);
      note(FaultKind::lost_token_delta, one);
      if (p_.S > 1) note(FaultKind::wrong_slot, neighbouring_slots());
      if (p_.n > 1) note(FaultKind::wrong_expert, tampered(FaultKind::wrong_expert));
      note(FaultKind::swapped_halves, tampered(FaultKind::swapped_halves));
      note(FaultKind::lost_rank_column, tampered(FaultKind::lost_rank_column));
      std::vector<double> scaled = right_.out;
      for (std::size_t i = 0; i < scaled.size(); ++i)
        scaled[i] = right_.base_out[i] + kScale * (right_.out[i] - right_.base_out[i]);
      note(FaultKind::scaled_down_delta, scaled);
    }
    note(FaultKind::lost_feature, tampered(FaultKind::lost_feature));
    note(FaultKind::lost_hidden_column, without_last_column());
    note(FaultKind::missing_gamma, without_gammas());
    return power_;
  }

 private:
  // A perfect implementation with this fault stores `out` rounded: is that outside what is allowed?
  void note(FaultKind kind, const std::vector<double>& out) {
    bool seen = false;
    for (std::int64_t t = 0; t < p_.T && !seen; ++t)
      for (std::int64_t h = 0; h < p_.H && !seen; ++h) {
        const std::int64_t i = t * p_.H + h;
        const double stored = round_to(p_.type, out[at(i)]);
        if (error_ == nullptr) {
          seen = stored != right_.out[at(i)];
          continue;
        }
        const double allowed = (*error_)[at(t_.index[at(t)] * p_.H + h)];
        seen = !std::isinf(allowed) && !(std::fabs(stored - right_.out[at(i)]) <= allowed);
      }
    (seen ? power_.seen : power_.vacuous) |= 1u << static_cast<int>(kind);
  }

  std::vector<double> with_slots(const std::vector<std::int32_t>& slots) const {
    Problem other = p_;
    other.token_slot = slots.data();
    return forward_f64(other, false).out;
  }
  std::vector<double> without_adapters() const {
    return with_slots(std::vector<std::int32_t>(t_.token_slot.size(), -1));
  }
  std::vector<double> neighbouring_slots() const {
    std::vector<std::int32_t> slots = t_.token_slot;
    for (std::int32_t& s : slots)
      if (s >= 0) s = static_cast<std::int32_t>((s + 1) % p_.S);
    return with_slots(slots);
  }
  std::vector<double> without_last_column() const {
    Problem other = p_;
    std::vector<std::byte> x = t_.x;
    for (std::int64_t t = 0; t < p_.T; ++t) store_element(p_.type, x.data(), t * p_.H + p_.H - 1, 0.0);
    other.x = x.data();
    return forward_f64(other, false).out;
  }
  std::vector<double> without_gammas() const {
    Problem other = p_;
    std::vector<std::byte> gammas = t_.gammas;
    for (std::int64_t i = 0; i < p_.T * p_.n; ++i) store_element(p_.gamma_type, gammas.data(), i, 1.0);
    other.gammas = gammas.data();
    return forward_f64(other, false).out;
  }

  // The steps of the pass from the bridges on, with one of them wrong.
  std::vector<double> tampered(FaultKind kind) const {
    Stages s = steps_.zero_stages();
    s.base_y = right_.base_y;
    s.bridge = right_.bridge;
    if (kind == FaultKind::lost_rank_column) drop_last(s.bridge, p_.R);
    if (kind == FaultKind::lost_feature)
      s.delta = right_.delta;
    else
      steps_.delta(s);
    // Expert e works with the delta of the next one; each half with the other's.
    if (kind == FaultKind::wrong_expert) rotate_experts(s.delta, 2 * p_.F);
    if (kind == FaultKind::swapped_halves)
      for (std::int64_t te = 0; te < p_.T * p_.n; ++te) {
        const auto half = s.delta.begin() + te * 2 * p_.F;
        std::swap_ranges(half, half + p_.F, half + p_.F);
      }
    steps_.activation(s);
    if (kind == FaultKind::lost_feature) drop_last(s.act, p_.F);
    steps_.expert_out(s);
    if (kind == FaultKind::wrong_expert) rotate_experts(s.act, p_.F);
    steps_.down_bridge(s);
    if (kind == FaultKind::lost_rank_column) drop_last(s.down_bridge, p_.R);
    steps_.down_delta(s);
    steps_.out(s);
    return std::move(s.out);
  }
  static void drop_last(std::vector<double>& stage, std::int64_t width) {
    for (std::size_t i = at(width) - 1; i < stage.size(); i += at(width)) stage[i] = 0;
  }
  void rotate_experts(std::vector<double>& stage, std::int64_t width) const {
    for (std::int64_t t = 0; t < p_.T; ++t) {
      const auto first = stage.begin() + t * p_.n * width;
      std::rotate(first, first + width, first + p_.n * width);
    }
  }

  const Tokens& t_;
  const Problem& p_;
  const ForwardSteps steps_;
  const Stages right_;
  const std::vector<double>* error_;
  std::int64_t last_adapted_ = -1;
  Power power_;
};

}  // namespace

const std::array<FaultKindRow, kFaultKinds>& fault_kinds() {
  static constexpr std::array<FaultKindRow, kFaultKinds> kRows = {{
      {FaultKind::missing_delta, "missing_delta", "no token gets its adapter"},
      {FaultKind::lost_token_delta, "lost_token_delta", "the last token that has an adapter does not get it"},
      {FaultKind::wrong_slot, "wrong_slot", "tokens use the neighbouring slot's adapter"},
      {FaultKind::wrong_expert, "wrong_expert", "an expert uses the next expert's part of the adapter"},
      {FaultKind::swapped_halves, "swapped_halves", "gate and up halves of the adapter are exchanged"},
      {FaultKind::lost_rank_column, "lost_rank_column", "the last of the R rank columns is dropped"},
      {FaultKind::lost_feature, "lost_feature",
       "the last intermediate feature is dropped from the down sums"},
      {FaultKind::lost_hidden_column, "lost_hidden_column",
       "the last hidden column is dropped from the sums over x"},
      {FaultKind::missing_gamma, "missing_gamma", "experts are added without their gammas"},
      {FaultKind::scaled_down_delta, "scaled_down_delta", "the down delta is 1.05 times too large"},
  }};
  return kRows;
}

Power power_of(const Problem& problem, const std::vector<double>* error) {
  const Tokens tokens(problem, chosen_tokens(problem));
  return Tamper(tokens, error).run();
}

}  // namespace sinktrap::reference
