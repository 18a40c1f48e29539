#include "judge/localise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>

#include "contract/tensor.hpp"
#include "judge/buffer.hpp"
#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "judge/probes.hpp"
#include "judge/session.hpp"
#include "reference/sweep.hpp"

namespace sinktrap {
namespace {

constexpr int A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB = SINKTRAP_BUFFER_GATE_UP_LORA_B,
              DLA = SINKTRAP_BUFFER_DOWN_LORA_A, B = SINKTRAP_BUFFER_DOWN_LORA_B;
// Probes of one kind, and the size of the picture: what fits a terminal of 80 columns.
constexpr std::int64_t kMostProbes = 32, kPictureRows = 16, kPictureColumns = 64;
constexpr std::int64_t kMostSlots = 16;  // each costs a forward pass of the reference

// Sets to zero what `kept` does not keep, by the index of the element along `axis`.
template <class Kept>
void keep(Tensor& t, int axis, Kept&& kept) {
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < t.shape().size(); ++i) inner *= t.shape()[i];
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (!kept(i / inner % t.extent(axis))) t.set(i, 0);
}

// What an implementation made of one batch, element by element.
struct Compared {
  std::vector<bool> differs;  // outside of what is allowed
  bool wrong = false;         // any of them
  bool whole_rows = true;     // of a token all elements or none
};

class Search {
 public:
  Search(const ForwardCase& c, const Implementation& implementation)
      : case_(c),
        implementation_(implementation),
        options_{c.layer.schedule, std::nullopt},
        in_(make_inputs(c)) {}

  std::optional<Localisation> run() {
    std::string why;
    if (!repeats(why)) return only(Stage::repeatability, why);
    const Compared here = compare(in_);
    if (!here.wrong) return std::nullopt;
    differs_ = here.differs;
    Localisation found;
    found.stage = writes_out(why) ? stage(why) : Stage::memory;
    found.lines.push_back(stage_line(found.stage, why));
    rows_and_columns(differs_, found.lines);
    if (found.stage != Stage::memory && found.stage != Stage::routing) parts(found.lines);
    picture(differs_, found.lines);
    return found;
  }

 private:
  using Edit = std::function<void(ForwardInputs&)>;

  static Localisation only(Stage stage, const std::string& why) { return {stage, {stage_line(stage, why)}}; }

  // The smallest and largest legal value of every element of the distinct rows.
  struct Legal {
    Distinct rows;
    std::vector<double> low, high;
  };
  Legal legal(const ForwardInputs& in, const sinktrap_declaration& declaration) const {
    Expectation expected = expect(in);
    const std::vector<double>& exact = expected.stages.out;
    Legal legal;
    const reference::Problem problem = problem_of(in, expected.rows);
    if (in.sweep && !expected.certificate.exact) {
      reference::Sweep sweep = reference::sweep_interval(problem, expected.stages, declaration.silu_class);
      if (sweep.why.empty()) {
        legal.low = std::move(sweep.low);
        legal.high = std::move(sweep.high);
      }
    }
    if (legal.low.size() != exact.size()) {
      std::vector<double> error(exact.size(), 0.0);
      if (!expected.certificate.exact)
        error = allowed_error(problem, expected.stages, declaration, in.independent);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double allowed = std::max(error[i], exact[i] == 0.0 ? kZeroOnLattice : 0.0);
        legal.low.push_back(exact[i] - allowed);
        legal.high.push_back(exact[i] + allowed);
      }
    }
    legal.rows = std::move(expected.rows);
    return legal;
  }
  Tensor output(Session& session, const ForwardInputs& in,
                const std::function<void(Session::ForwardCall&)>& edit = {}) const {
    const auto answer = session.forward(in.x, in.gammas, in.token_slot, edit);
    must_succeed(implementation_, answer.verdict, "forward");
    return answer.out;
  }
  void bind(Session& session, const ForwardInputs& in) const {
    must_succeed(implementation_, session.bind(in.pool), "bind");
  }
  // True for an element that is right. An expected NaN or infinity is not judged here.
  static bool fits(const Legal& legal, std::int64_t row, std::int64_t h, std::int64_t H, double found) {
    const auto i = static_cast<std::size_t>(row * H + h);
    if (!std::isfinite(legal.low[i]) || !std::isfinite(legal.high[i])) return true;
    return legal.low[i] <= found && found <= legal.high[i];
  }
  Compared compare(const ForwardInputs& in) const {
    Session session(implementation_, in, options_);
    bind(session, in);
    const Tensor out = output(session, in);
    const Legal expected = legal(in, session.declaration());
    Compared c;
    for (std::int64_t t = 0; t < in.T(); ++t) {
      const std::int64_t row = expected.rows.whole ? t : expected.rows.row_of[static_cast<std::size_t>(t)];
      std::int64_t wrong = 0;
      for (std::int64_t h = 0; h < in.d.H; ++h) {
        c.differs.push_back(!fits(expected, row, h, in.d.H, out.at(t * in.d.H + h)));
        wrong += c.differs.back();
      }
      c.wrong = c.wrong || wrong > 0;
      c.whole_rows = c.whole_rows && (wrong == 0 || wrong == in.d.H);
    }
    return c;
  }
  Compared compare_with(std::initializer_list<Edit> edits) const {
    ForwardInputs in = in_;
    for (const Edit& edit : edits) edit(in);
    return compare(in);
  }
  bool wrong_with(std::initializer_list<Edit> edits) const { return compare_with(edits).wrong; }

  // The same call once more, and with another layer bound in between.
  bool repeats(std::string& why) const {
    Session session(implementation_, in_, options_);
    if (!session.declaration().deterministic) return true;
    bind(session, in_);
    const Tensor first = output(session, in_);
    why = "a second call with the same arguments gives another result";
    if (!first.same_bits(output(session, in_))) return false;
    ForwardCase different = case_;
    ++different.layer.seed;
    const ForwardInputs other_in = make_inputs(different);
    Session other(implementation_, other_in, options_);
    bind(other, other_in);
    output(other, other_in);
    why = "another layer beside it changes the result";
    return first.same_bits(output(session, in_));
  }

  // Whether the result is the same for another content of `out` before the call.
  bool writes_out(std::string& why) const {
    Session session(implementation_, in_, options_);
    bind(session, in_);
    const Tensor first = output(session, in_);
    why = "the result depends on what out held before, or part of out is not written";
    if (!implementation_.own_memory()) {
      const auto clear = [&](Session::ForwardCall& call) {
        std::memset(first_byte(call.out), 0, first.bytes().size());
      };
      return first.same_bits(output(session, in_, clear));
    }
    // Out of reach: look for the bits that it was filled with.
    const Tensor poison = Buffer::poisoned(implementation_, "out", in_.type, first.shape()).uploaded();
    const auto width = static_cast<std::size_t>(element_bytes(in_.type));
    for (std::size_t i = 0; i < differs_.size(); ++i)
      if (differs_[i] &&
          std::memcmp(first.bytes().data() + i * width, poison.bytes().data() + i * width, width) == 0)
        return false;
    return true;
  }

  // The case is wrong. Parts in the order in which a fault of one shows in the next.
  Stage stage(std::string& why) const {
    using namespace probes;
    const Edit none = [](ForwardInputs& in) { all_slots(in, -1); };
    const auto zeros = [](std::initializer_list<int> buffers) {
      return Edit([buffers = std::vector<int>(buffers)](ForwardInputs& in) {
        for (const int b : buffers) zero(in.pool[static_cast<std::size_t>(b)]);
      });
    };
    if (wrong_with({base_only})) return base_stage(why);
    why = "wrong with adapters of zeros";
    if (wrong_with({zeros({A, GUB, DLA, B})})) return Stage::routing;
    why = "tokens without a slot are wrong, and right with adapters of zeros";
    if (wrong_with({none})) return Stage::routing;
    if (served_elsewhere(why)) return Stage::routing;
    const bool up = wrong_with({zeros({B})}), down = wrong_with({zeros({GUB})});
    why = "either is wrong without the other";
    if (up && down) return Stage::deltas;
    why = "wrong with down B zero, right with gate/up B zero";
    if (up) return Stage::gate_up_delta;
    why = "wrong with gate/up B zero, right with down B zero";
    if (down) return Stage::down_delta;
    why = "wrong only where gate/up delta and down delta meet";
    return Stage::nowhere;
  }

  // Wrong for base tokens and a pool of zeros.
  Stage base_stage(std::string& why) const {
    using namespace probes;
    const Edit ones = [](ForwardInputs& in) { equal_gammas(in, 1); };
    const Edit one = [](ForwardInputs& in) { first_gamma(in, 1); };
    const Edit two = [](ForwardInputs& in) { first_gamma(in, 2); };
    const Edit even = [](ForwardInputs& in) { even_activations(in, 64); };
    const auto swept = [](int round) {
      return Edit([round](ForwardInputs& in) { swept_activations(in, round); });
    };
    const auto first = [](Weight weight, Experts experts) {
      return Edit([=](ForwardInputs& in) { first_feature_out(in, weight, experts); });
    };
    // Both ways of taking expert 0: what is wrong with the weights or the order of the experts shows in one.
    // Every column carries the same activation, so that a wrong one shows in all of them.
    const auto one_activation = [&](const Edit& activations, bool whole_rows) {
      for (const Experts experts : {Experts::all, Experts::first}) {
        const Compared c = compare_with({base_only, activations, one, first(Weight::one, experts)});
        if (!c.wrong || (whole_rows && !c.whole_rows)) return false;
      }
      return true;
    };
    why = "wrong without any adapter where out is one activation";
    if (one_activation(even, true)) return Stage::activation;
    why = "wrong in some columns without any adapter, where all columns are alike";
    if (one_activation(even, false)) return Stage::store;
    // 60 * 60 has 8 bits, and its product with a weight of four has 12: more than bf16 and f16 hold.
    const Edit sixty = [](ForwardInputs& in) { even_activations(in, 60); };
    why = "wrong without any adapter where out is one product that has to be rounded";
    if (in_.type != Element::f32 &&
        wrong_with({base_only, sixty, one, first(Weight::four_bits, Experts::all)}) &&
        wrong_with({base_only, sixty, one, first(Weight::four_bits, Experts::first)}))
      return Stage::store;
    why = "wrong without any adapter where out is one activation";
    for (int round = 0; round < kSweepRounds; ++round)
      if (one_activation(swept(round), true)) return Stage::activation;
    // Each time two kinds of gammas: a fault of theirs shows with one of them.
    why = "wrong without any adapter with activations that are all alike";
    if (wrong_with({base_only, even, ones, many_bits_in_w2}) &&
        wrong_with({base_only, even, half_gammas, many_bits_in_w2}))
      return Stage::down_sum;
    for (const std::int64_t e : {std::int64_t{0}, in_.d.n - 1}) {
      const Edit alone = [e](ForwardInputs& in) { only_expert(in, e); };
      const Edit weight = [e](ForwardInputs& in) {
        zero(in.gammas);
        for (std::int64_t t = 0; t < in.T(); ++t) in.gammas.set(t * in.d.n + e, 1);
      };
      if (wrong_with({base_only, even, alone, ones, many_bits_in_w2}) &&
          wrong_with({base_only, even, alone, weight, many_bits_in_w2}))
        return Stage::down_sum;
    }
    why = "wrong without any adapter, right with gammas of 1";
    if (!wrong_with({base_only, ones}) || (!wrong_with({base_only, one}) && wrong_with({base_only, two})))
      return Stage::gamma;
    why = "wrong without any adapter where base products are exact and activations are not";
    for (int round = 0; round < kSweepRounds; ++round)
      if (wrong_with({base_only, swept(round)})) return Stage::activation;
    why = "wrong where gates and ups are deltas alone";
    if (wrong_with({[](ForwardInputs& in) {
          zero(in.w13);
          zero(in.pool[DLA]);
        }}))
      return Stage::activation;
    why = "wrong without any adapter, right where every row of w13 is alike";
    return Stage::base_product;
  }

  // Whether every wrong token has the output of another slot.
  bool served_elsewhere(std::string& why) const {
    if (in_.d.S > kMostSlots) return false;
    Session session(implementation_, in_, options_);
    bind(session, in_);
    const Tensor out = output(session, in_);
    std::vector<Legal> as;
    for (std::int32_t s = -1; s < in_.d.S; ++s) {
      ForwardInputs in = in_;
      probes::all_slots(in, s);
      as.push_back(legal(in, session.declaration()));
    }
    why.clear();
    for (std::int64_t t = 0; t < in_.T(); ++t) {
      const auto row_fits = [&](const Legal& legal) {
        const std::int64_t row = legal.rows.whole ? t : legal.rows.row_of[static_cast<std::size_t>(t)];
        for (std::int64_t h = 0; h < in_.d.H; ++h)
          if (!fits(legal, row, h, in_.d.H, out.at(t * in_.d.H + h))) return false;
        return true;
      };
      const auto own = static_cast<std::int64_t>(in_.token_slot.at(t));
      if (row_fits(as[static_cast<std::size_t>(own + 1)])) continue;
      const auto other = std::find_if(as.begin(), as.end(), row_fits);
      if (other == as.end()) return false;
      if (why.empty())
        why = fmt::format("token {} of slot {} has the output of slot {}", t, own, other - as.begin() - 1);
    }
    return !why.empty();
  }

  void rows_and_columns(const std::vector<bool>& differs, std::vector<std::string>& list) const {
    std::vector<std::int64_t> rows, columns;
    for (std::int64_t t = 0; t < in_.T(); ++t)
      for (std::int64_t h = 0; h < in_.d.H; ++h)
        if (differs[static_cast<std::size_t>(t * in_.d.H + h)]) {
          rows.push_back(t);
          columns.push_back(h);
        }
    const auto unique = [](std::vector<std::int64_t>& v) {
      std::sort(v.begin(), v.end());
      v.erase(std::unique(v.begin(), v.end()), v.end());
    };
    unique(rows);
    unique(columns);
    std::vector<std::int64_t> slots;
    slots.reserve(rows.size());
    for (const std::int64_t t : rows) slots.push_back(static_cast<std::int64_t>(in_.token_slot.at(t)));
    unique(slots);
    list.push_back(
        fmt::format("tokens   {} of {} (slots {})", ranges_text(rows), in_.T(), ranges_text(slots)));
    list.push_back(fmt::format("columns  {} of {}", ranges_text(columns), in_.d.H));
  }

  // One line for each kind of part: those that are wrong when they stand alone.
  void parts(std::vector<std::string>& list) const {
    const auto alone = [&](const char* name, std::int64_t count, auto&& edit) {
      std::vector<std::int64_t> wrong;
      const std::int64_t most = std::min(count, kMostProbes);
      for (std::int64_t k = 0; k < most; ++k)
        if (wrong_with({[&](ForwardInputs& in) { edit(in, k); }})) wrong.push_back(k);
      list.push_back(fmt::format("{:<8} {} of {}{}", name, wrong.empty() ? "none alone" : ranges_text(wrong),
                                 count, most < count ? fmt::format(" (the first {} tried)", most) : ""));
    };
    const auto only = [](std::int64_t k) { return [k](std::int64_t i) { return i == k; }; };
    alone("experts", in_.d.n, [&](ForwardInputs& in, std::int64_t e) { keep(in.gammas, 1, only(e)); });
    alone("halves", 2, [&](ForwardInputs& in, std::int64_t half) {
      keep(in.pool[GUB], 2, [&](std::int64_t row) { return row / in.d.F == half; });
    });
    alone("ranks", in_.d.R, [&](ForwardInputs& in, std::int64_t q) {
      keep(in.pool[GUB], 3, only(q));
      keep(in.pool[B], 3, only(q));
    });
    alone("features", in_.d.F, [&](ForwardInputs& in, std::int64_t j) {
      keep(in.w2, 2, only(j));
      keep(in.pool[DLA], 3, only(j));
    });
  }

  void picture(const std::vector<bool>& differs, std::vector<std::string>& list) const {
    list.emplace_back("out      # wrong, . right; tokens downwards, columns to the right");
    for (std::int64_t t = 0; t < std::min(in_.T(), kPictureRows); ++t) {
      std::string row = "         ";
      for (std::int64_t h = 0; h < std::min(in_.d.H, kPictureColumns); ++h)
        row += differs[static_cast<std::size_t>(t * in_.d.H + h)] ? '#' : '.';
      list.push_back(row + (in_.d.H > kPictureColumns ? " ..." : ""));
    }
    if (in_.T() > kPictureRows) list.emplace_back("         ...");
  }

  const ForwardCase& case_;
  const Implementation& implementation_;
  SessionOptions options_;
  ForwardInputs in_;
  std::vector<bool> differs_;
};

}  // namespace

std::optional<Localisation> localise(const ForwardCase& c, const Implementation& implementation) {
  return Search(c, implementation).run();
}

std::string stage_line(Stage stage, const std::string& why) {
  const StageRow& row = row_of(stage);
  return fmt::format("stage    {} ({}): {}", row.name, row.meaning, why);
}

std::string ranges_text(const std::vector<std::int64_t>& sorted) {
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", sorted[i]) : fmt::format("{}..{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace sinktrap
