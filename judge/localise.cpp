#include "judge/localise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "judge/session.hpp"

namespace sinktrap {
namespace {

constexpr auto GUB = SINKTRAP_BUFFER_GATE_UP_LORA_B, DLA = SINKTRAP_BUFFER_DOWN_LORA_A,
               B = SINKTRAP_BUFFER_DOWN_LORA_B;
// Probes of one kind, and the size of the picture: what fits a terminal of 80 columns.
constexpr std::int64_t kMostProbes = 32, kPictureRows = 16, kPictureColumns = 64;

// Sets to zero what `kept` does not keep, by the index of the element along `axis`.
template <class Kept>
void keep(Tensor& t, int axis, Kept&& kept) {
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < t.shape().size(); ++i) inner *= t.shape()[i];
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (!kept(i / inner % t.extent(axis))) t.set(i, 0);
}

class Search {
 public:
  Search(const ForwardCase& c, const Implementation& implementation)
      : implementation_(implementation), options_{c.layer.schedule, std::nullopt}, in_(make_inputs(c)) {}

  std::vector<std::string> lines() {
    const std::vector<bool> differs = differences(in_);
    if (std::none_of(differs.begin(), differs.end(), [](bool d) { return d; })) return {};
    std::vector<std::string> list = {"stage    " + stage()};
    rows_and_columns(differs, list);
    parts(list);
    picture(differs, list);
    return list;
  }

 private:
  // Which elements are outside of what is allowed.
  std::vector<bool> differences(const ForwardInputs& in) const {
    const Expectation expected = expect(in);
    Session session(implementation_, in, options_);
    must_succeed(implementation_, session.bind(in.pool), "bind");
    const auto answer = session.forward(in.x, in.gammas, in.token_slot);
    must_succeed(implementation_, answer.verdict, "forward");
    const sinktrap_declaration d = session.declaration();
    std::vector<double> error(expected.stages.out.size(), 0.0);
    if (!expected.certificate.exact)
      error = reference::worst_case_bound(problem_of(in), expected.stages,
                                          d.seams_declared ? d.seams : SINKTRAP_ALL_SEAMS, d.silu_class)
                  .error;
    std::vector<bool> differs(error.size());
    for (std::size_t i = 0; i < error.size(); ++i) {
      const double allowed = std::max(error[i], expected.stages.out[i] == 0.0 ? kZeroOnLattice : 0.0);
      differs[i] =
          !(std::fabs(answer.out.at(static_cast<std::int64_t>(i)) - expected.stages.out[i]) <= allowed);
    }
    return differs;
  }
  template <class Edit>
  bool wrong_with(Edit&& edit) const {
    ForwardInputs in = in_;
    edit(in);
    const std::vector<bool> differs = differences(in);
    return std::find(differs.begin(), differs.end(), true) != differs.end();
  }

  std::string stage() const {
    const auto none = [](ForwardInputs& in) {
      for (std::int64_t t = 0; t < in.T(); ++t) in.token_slot.set(t, -1);
    };
    const auto zero = [](Tensor& t) { t = Tensor(t.type(), t.shape()); };
    if (wrong_with(none)) return "base: wrong without any adapter (w13, activation, gamma, w2)";
    if (wrong_with([&](ForwardInputs& in) {
          zero(in.pool[GUB]);
          zero(in.pool[B]);
        }))
      return "routing: wrong with adapters of zeros";
    const bool up = wrong_with([&](ForwardInputs& in) { zero(in.pool[B]); });
    const bool down = wrong_with([&](ForwardInputs& in) { zero(in.pool[GUB]); });
    if (up && down) return "gate/up delta and down delta: either is wrong without the other";
    if (up) return "gate/up delta: wrong with down B zero, right with gate/up B zero";
    if (down) return "down delta: wrong with gate/up B zero, right with down B zero";
    return "nowhere in the parts: wrong only where gate/up delta and down delta meet";
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
        if (wrong_with([&](ForwardInputs& in) { edit(in, k); })) wrong.push_back(k);
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
    list.push_back("out      # wrong, . right; tokens downwards, columns to the right");
    for (std::int64_t t = 0; t < std::min(in_.T(), kPictureRows); ++t) {
      std::string row = "         ";
      for (std::int64_t h = 0; h < std::min(in_.d.H, kPictureColumns); ++h)
        row += differs[static_cast<std::size_t>(t * in_.d.H + h)] ? '#' : '.';
      list.push_back(row + (in_.d.H > kPictureColumns ? " ..." : ""));
    }
    if (in_.T() > kPictureRows) list.push_back("         ...");
  }

  const Implementation& implementation_;
  SessionOptions options_;
  ForwardInputs in_;
};

}  // namespace

std::vector<std::string> localise(const ForwardCase& c, const Implementation& implementation) {
  return Search(c, implementation).lines();
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
