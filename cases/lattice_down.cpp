// The second half of the lattice: w2, down_lora_a and down_lora_b over the planned activations.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cases/fill_store.hpp"
#include "cases/lattice_plan.hpp"

namespace sinktrap {
namespace {

// Sum of magnitudes, in units of the token, that the cancelling weights of base and of LoRA may each reach.
// Both, the nets, couples and remainders (below 2^17 together) stay under the 2^23 granules of the
// certificate.
constexpr std::int64_t kBudget = std::int64_t{1} << 21;

// Size of cancelling weights. Where even weights of 1 would leave the budget, only every `stride`-th group
// has any, in turns from row to row.
struct Size {
  std::int32_t largest = 1;
  std::int32_t shared[2] = {1, 1};  // the largest of each of one, of two weights that cancel a further one
  std::int64_t stride = 1;
  Size(std::int64_t load, std::int32_t weight) {
    load = std::max<std::int64_t>(load, 1);
    largest = static_cast<std::int32_t>(std::clamp<std::int64_t>(kBudget / load, 1, weight));
    shared[0] = largest;
    shared[1] = std::max(largest / 2, 1);
    stride = (load + kBudget - 1) / kBudget;
  }
};

// A weight of +-1 on the last member of a group, or on a coupled feature: a term that reaches the result.
struct Net {
  std::int32_t group = 0;
  std::int64_t expert = 0, feature = 0;
  std::int32_t sign = 1;
};

// What one output row shows of every token: a single net on a group that is always on, w, and for a slot
// twice the same through the rank, 3 w'. With G U and G' U' its activations without and with the adapter, G U
// = 3 G' U' cannot be: U and U' differ and are odd, at most 3, so either |U| = 3 |U'| and G = G', which
// differ too; or 3 |U| = |U'| and G = 9 G' while G <= 6z and G' >= z.
struct Witness {
  std::int64_t row = 0, expert = 0;
  std::int32_t sign = 1;
};

class Down {
 public:
  Down(const ForwardCase& c, const LatticePlan& plan, ForwardInputs& in)
      : c_(c), plan_(plan), in_(in), H_(in.d.H), R_(in.d.R), random_(c.layer.seed, 105) {
    // (base nets + delta nets * bridge nets) = 3: see the width in lattice_plan.cpp.
    constexpr int kNets[3][3] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
    const auto& nets = kNets[random_.below(3)];
    base_nets_ = nets[0];
    delta_nets_ = nets[1];
    bridge_nets_ = nets[2];
    witness_.row = random_.between(0, static_cast<std::int32_t>(H_ - 1));
    witness_.expert = random_.between(0, static_cast<std::int32_t>(plan.n - 1));
    witness_.sign = random_.sign();
    row_.resize(static_cast<std::size_t>(plan.n * plan.F));
    turns_.resize(static_cast<std::size_t>(plan.n));
    std::iota(turns_.begin(), turns_.end(), std::int64_t{0});
    random_.shuffle(std::span(turns_));
    list_combinations();
    for (const LatticePlan::Group& g : plan.groups) {
      Members& members = members_.emplace_back();
      members.size = g.size;
      for (int m = 0; m < g.size; ++m) {
        members.at[m] = plan.feature(g.expert, g.feature[m]);
        members.rho[m] = std::int32_t{plan.rho[members.at[m]]};
      }
    }
  }

  void fill(float w2_scale, float a_scale, float b_scale) {
    const Size size(load_of_tokens(plan_.n, -2,
                                   [this](std::int32_t slot, int c, std::span<std::int64_t> load) {
                                     for (std::int32_t g = plan_.first_of[0]; g < plan_.group_count(); ++g) {
                                       const auto& group = plan_.groups[static_cast<std::size_t>(g)];
                                       load[static_cast<std::size_t>(group.expert)] +=
                                           std::int64_t{group.size} * std::abs(plan_.activation(slot, c, g));
                                     }
                                     if (!plan_.couple) return;
                                     const std::int64_t both = std::abs(plan_.activation(slot, c, 0));
                                     load[static_cast<std::size_t>(plan_.couple->expert_a)] += both;
                                     load[static_cast<std::size_t>(plan_.couple->expert_b)] += both;
                                   }),
                    plan_.range.weight);
    fill_w2(size, w2_scale);
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(plan_.slots.size()); ++s) {
      if (plan_.slots[static_cast<std::size_t>(s)].rank == 0) continue;
      plan_rank_groups(s);
      fill_a(s, size, a_scale);
      fill_b(s, b_scale);
    }
  }

 private:
  // Combinations of slot and class that tokens have: few, while tokens are many.
  void list_combinations() {
    combination_of_.resize(static_cast<std::size_t>(plan_.T));
    std::vector<std::int32_t> index(static_cast<std::size_t>(in_.d.S + 1) * kMaxClasses, -1);
    for (std::size_t t = 0; t < combination_of_.size(); ++t) {
      std::int32_t& i = index[static_cast<std::size_t>(c_.slots[t] + 1) * kMaxClasses + plan_.class_of[t]];
      if (i < 0) {
        i = static_cast<std::int32_t>(combinations_.size());
        combinations_.emplace_back(c_.slots[t], plan_.class_of[t]);
      }
      combination_of_[t] = i;
    }
  }

  // Largest load of a token, in its units: the sum over experts of add's load times the gamma's ratio. Only
  // tokens of one slot, or of all (-2).
  template <class Add>
  std::int64_t load_of_tokens(std::int64_t n, std::int32_t only, Add add) const {
    std::vector<std::int64_t> loads(combinations_.size() * static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < combinations_.size(); ++i)
      if (only == -2 || combinations_[i].first == only)
        add(combinations_[i].first, combinations_[i].second,
            std::span(loads).subspan(i * static_cast<std::size_t>(n), static_cast<std::size_t>(n)));
    std::int64_t largest = 0;
    for (std::int64_t t = 0; t < plan_.T; ++t) {
      const auto i = static_cast<std::int64_t>(combination_of_[static_cast<std::size_t>(t)]);
      if (only != -2 && combinations_[static_cast<std::size_t>(i)].first != only) continue;
      std::int64_t sum = 0;
      for (std::int64_t e = 0; e < n; ++e)
        sum += loads[static_cast<std::size_t>(i * n + e)] * plan_.gamma_ratio(t, e);
      largest = std::max(largest, sum);
    }
    return largest;
  }

  std::int32_t& weight(std::int64_t e, std::int64_t j) { return row_[plan_.feature(e, j)]; }

  // Weights on the groups of experts first..last-1 whose sum over every group vanishes for every token.
  void draw_cancelling(std::int64_t row, std::int64_t first, std::int64_t last, const Size& size) {
    std::fill(row_.begin() + first * plan_.F, row_.begin() + last * plan_.F, 0);
    for (std::int32_t i = plan_.first_of[static_cast<std::size_t>(first)];
         i < plan_.first_of[static_cast<std::size_t>(last)]; ++i) {
      if (size.stride > 1 && (i + row) % size.stride != 0) continue;
      const Members& g = members_[static_cast<std::size_t>(i)];
      const auto most = static_cast<std::uint32_t>(size.shared[g.size == 3]);
      std::int32_t sum = 0;
      for (int m = 0; m + 1 < g.size; ++m) {
        const std::int32_t v = random_.signed_magnitude(most);
        row_[g.at[m]] = v;
        sum += v * g.rho[m];
      }
      row_[g.at[g.size - 1]] = -sum * g.rho[g.size - 1];
    }
  }

  // Opposite contributions of the two coupled features: v on the first and -v 2^ratio, the gammas' ratio, on
  // the other.
  void add_couple(std::int32_t v) {
    const LatticePlan::Couple& p = *plan_.couple;
    const std::int32_t signs =
        plan_.rho[plan_.feature(p.expert_a, p.feature_a)] * plan_.rho[plan_.feature(p.expert_b, p.feature_b)];
    weight(p.expert_a, p.feature_a) += v;
    weight(p.expert_b, p.feature_b) -= signs * (p.ratio < 0 ? v / 2 : v << p.ratio);
  }

  // A net of one expert; half of them on the group that is on for every token.
  Net draw_net(std::int64_t e) {
    const auto i = static_cast<std::size_t>(e);
    std::int32_t g = plan_.always[i];
    if (random_.chance(1, 2)) g = random_.between(plan_.first_of[i], plan_.first_of[i + 1] - 1);
    return net_on(g);
  }
  Net net_on(std::int32_t g) {
    const LatticePlan::Group& group = plan_.groups[static_cast<std::size_t>(g)];
    return {g, group.expert, group.last(), random_.sign()};
  }
  Net coupled_net(bool first) {
    const LatticePlan::Couple& p = *plan_.couple;
    return {0, first ? p.expert_a : p.expert_b, first ? p.feature_a : p.feature_b, random_.sign()};
  }
  std::int64_t any_expert() { return random_.between(0, static_cast<std::int32_t>(plan_.n - 1)); }
  bool is_coupled(std::int64_t e) const {
    return plan_.couple && (e == plan_.couple->expert_a || e == plan_.couple->expert_b);
  }
  // An expert between the coupled ones; if there is none, one that is not coupled. n >= 3.
  std::int64_t expert_between() {
    const LatticePlan::Couple& p = *plan_.couple;
    if (p.expert_b - p.expert_a > 1)
      return random_.between(static_cast<std::int32_t>(p.expert_a + 1),
                             static_cast<std::int32_t>(p.expert_b - 1));
    std::int64_t e = random_.between(0, static_cast<std::int32_t>(plan_.n - 3));
    if (e >= p.expert_a) e += 2;  // the two are neighbours here
    return e;
  }
  static void add_net(std::vector<Net>& nets, const Net& net) {
    for (const Net& other : nets)
      if (other.expert == net.expert && other.feature == net.feature) return;
    nets.push_back(net);
  }

  void fill_w2(const Size& size, float scale) {
    const FastStore w2(in_.w2);
    std::vector<Net> nets;
    for (std::int64_t h = 0; h < H_; ++h) {
      draw_cancelling(h, 0, plan_.n, size);
      draw_w2_nets(h, nets);
      for (const Net& net : nets) weight(net.expert, net.feature) += net.sign;
      for (std::int64_t e = 0; e < plan_.n; ++e)
        w2.set_row((e * H_ + h) * plan_.F, &weight(e, 0), plan_.F, scale);
    }
  }

  void draw_w2_nets(std::int64_t h, std::vector<Net>& nets) {
    nets.clear();
    if (h == witness_.row) {
      nets.push_back(net_on(plan_.always[static_cast<std::size_t>(witness_.expert)]));
      nets.back().sign = witness_.sign;
      return;
    }
    if (plan_.couple && random_.chance(plan_.n > 2 ? 2 : 1, 4)) {
      // Large terms of two experts that cancel, and nets of an expert between them: rounding in between
      // shows.
      const std::int32_t size =
          1 << random_.between(plan_.range.couple_exponent - 1, plan_.range.couple_exponent);
      add_couple(random_.sign() * size);
      for (int i = 0; plan_.n > 2 && i < base_nets_; ++i) add_net(nets, draw_net(expert_between()));
      return;
    }
    if (plan_.couple && random_.chance(3, 10)) nets.push_back(coupled_net(random_.chance(1, 2)));
    for (int i = static_cast<int>(nets.size()); i < base_nets_; ++i)
      add_net(nets, draw_net(i == 0 ? turns_[static_cast<std::size_t>(h % plan_.n)] : any_expert()));
  }

  // Two or three columns of the rank (one only when there is no other) whose rows of down_lora_a have the
  // same nets up to a sign, so that down_lora_b can cancel them.
  struct RankGroup {
    std::int64_t outer = 0;
    std::vector<std::int64_t> columns;
    std::vector<Net> nets;
  };
  std::int32_t& rank_sign(std::int64_t o, std::int64_t q) {
    return rank_signs_[static_cast<std::size_t>(o * R_ + q)];
  }

  void plan_rank_groups(std::int32_t s) {
    const std::int64_t r = plan_.slots[static_cast<std::size_t>(s)].rank;
    rank_groups_.clear();
    rank_signs_.resize(static_cast<std::size_t>(plan_.outer * R_));
    for (std::int32_t& v : rank_signs_) v = random_.sign();
    const std::int64_t witness_outer = plan_.outer == 1 ? 0 : witness_.expert;
    std::vector<std::int64_t> columns(static_cast<std::size_t>(r));
    for (std::int64_t o = 0; o < plan_.outer; ++o) {
      std::iota(columns.begin(), columns.end(), std::int64_t{0});
      random_.shuffle(std::span(columns));
      for (std::size_t i = 0; i < columns.size();) {
        const std::size_t left = columns.size() - i, take = left == 3 ? 3 : std::min<std::size_t>(left, 2);
        RankGroup g;
        g.outer = o;
        g.columns.assign(columns.begin() + static_cast<std::ptrdiff_t>(i),
                         columns.begin() + static_cast<std::ptrdiff_t>(i + take));
        if (i == 0 && o == witness_outer) {
          witness_group_ = rank_groups_.size();
          g.nets = {net_on(plan_.always[static_cast<std::size_t>(witness_.expert)])};
        } else {
          draw_bridge_nets(o, g.nets);
        }
        rank_groups_.push_back(std::move(g));
        i += take;
      }
    }
  }

  void draw_bridge_nets(std::int64_t o, std::vector<Net>& nets) {
    const bool shared = plan_.outer == 1;
    const bool beside_couple = shared && plan_.couple && random_.chance(19, 20);
    for (int i = 0; i < bridge_nets_; ++i) {
      if (!shared && is_coupled(o) &&
          random_.chance(1, 4)) {  // by itself, a coupled feature is like any other
        add_net(nets, coupled_net(o == plan_.couple->expert_a));
        continue;
      }
      std::int64_t e = shared ? any_expert() : o;
      if (beside_couple) e = random_.chance(1, 2) ? plan_.couple->expert_a : plan_.couple->expert_b;
      add_net(nets, draw_net(e));
    }
  }

  void fill_a(std::int32_t s, const Size& size, float scale) {
    const FastStore a(in_.pool[SINKTRAP_BUFFER_DOWN_LORA_A]);
    const bool shared = plan_.outer == 1;
    for (const RankGroup& g : rank_groups_) {
      const std::int64_t first = shared ? 0 : g.outer, last = shared ? plan_.n : g.outer + 1;
      for (std::int64_t q : g.columns) {
        draw_cancelling(q, first, last, size);
        for (const Net& net : g.nets) weight(net.expert, net.feature) += net.sign * rank_sign(g.outer, q);
        // Even, since the other side may get half of it. Partial bridges of single experts are then wide.
        if (shared && plan_.couple)
          add_couple(2 * random_.signed_magnitude(static_cast<std::uint32_t>(std::max(size.largest / 4, 1))));
        for (std::int64_t e = first; e < last; ++e)
          a.set_row(((s * plan_.n + e) * R_ + q) * plan_.F, &weight(e, 0), plan_.F, scale);
      }
    }
  }

  void fill_b(std::int32_t s, float scale) {
    const FastStore b(in_.pool[SINKTRAP_BUFFER_DOWN_LORA_B]);
    const Size size(load_of_tokens(plan_.n, s,
                                   [this](std::int32_t slot, int c, std::span<std::int64_t> load) {
                                     for (const RankGroup& g : rank_groups_)
                                       for (const Net& net : g.nets)
                                         load[static_cast<std::size_t>(net.expert)] +=
                                             static_cast<std::int64_t>(g.columns.size()) *
                                             std::abs(plan_.activation(slot, c, net.group));
                                   }),
                    plan_.range.weight);
    const std::size_t groups = rank_groups_.size();
    std::vector<std::int32_t> row(static_cast<std::size_t>(plan_.outer * R_));
    for (std::int64_t h = 0; h < H_; ++h) {
      std::fill(row.begin(), row.end(), 0);
      for (std::size_t i = 0; i < groups; ++i) {
        const RankGroup& g = rank_groups_[i];
        if (size.stride > 1 && (static_cast<std::int64_t>(i) + h) % size.stride != 0) continue;
        const std::size_t last = g.columns.size() - 1;
        if (last == 0) continue;
        const auto most = static_cast<std::uint32_t>(size.shared[last == 2]);
        std::int32_t sum = 0;
        for (std::size_t m = 0; m < last; ++m) {
          const std::int32_t v = random_.signed_magnitude(most);
          row[static_cast<std::size_t>(g.outer * R_ + g.columns[m])] = v;
          sum += v * rank_sign(g.outer, g.columns[m]);
        }
        row[last_column(g)] = -sum * rank_sign(g.outer, g.columns[last]);
      }
      if (h == witness_.row) {
        const RankGroup& g = rank_groups_[witness_group_];
        row[last_column(g)] += 2 * witness_.sign * g.nets[0].sign * rank_sign(g.outer, g.columns.back());
      } else {
        std::size_t i = random_.below(static_cast<std::uint32_t>(groups));
        for (std::size_t k = 0; k < std::min<std::size_t>(static_cast<std::size_t>(delta_nets_), groups);
             ++k) {
          row[last_column(rank_groups_[i])] += random_.sign();
          if (groups > 1) i = (i + 1 + random_.below(static_cast<std::uint32_t>(groups - 1))) % groups;
        }
      }
      for (std::int64_t o = 0; o < plan_.outer; ++o)
        b.set_row(((s * plan_.outer + o) * H_ + h) * R_, &row[static_cast<std::size_t>(o * R_)],
                  plan_.slots[static_cast<std::size_t>(s)].rank, scale);
    }
  }
  std::size_t last_column(const RankGroup& g) const {
    return static_cast<std::size_t>(g.outer * R_ + g.columns.back());
  }

  const ForwardCase& c_;
  const LatticePlan& plan_;
  ForwardInputs& in_;
  std::int64_t H_, R_;
  Random random_;
  int base_nets_ = 1, delta_nets_ = 1, bridge_nets_ = 1;
  Witness witness_;
  // A group's features as places in row_, and their signs. Every row looks at all of them.
  struct Members {
    int size = 0;
    std::size_t at[3] = {0, 0, 0};
    std::int32_t rho[3] = {1, 1, 1};
  };
  std::vector<Members> members_;   // [groups]
  std::vector<std::int32_t> row_;  // [n, F]: the row being drawn
  std::vector<std::int64_t>
      turns_;  // experts in random order; rows of w2 take their first net from them in turn
  std::vector<std::pair<std::int32_t, int>> combinations_;  // (slot, class)
  std::vector<std::int32_t> combination_of_;                // [T]
  std::vector<RankGroup> rank_groups_;                      // of the slot being filled
  std::vector<std::int32_t> rank_signs_;                    // [outer, R]
  std::size_t witness_group_ = 0;
};

}  // namespace

void fill_lattice_down(const ForwardCase& c, const LatticePlan& plan, std::int32_t w2_power,
                       std::int32_t a_power, std::int32_t b_power, ForwardInputs& in) {
  Down(c, plan, in).fill(std::ldexp(1.0f, w2_power), std::ldexp(1.0f, a_power), std::ldexp(1.0f, b_power));
}

}  // namespace sinktrap
