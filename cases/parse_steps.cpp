#include "cases/parse_steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cases/lists.hpp"
#include "cases/names.hpp"

namespace sinktrap {
namespace {

class StepParser {
 public:
  StepParser(Fields& f, std::string_view text, std::size_t column, const LayerCase& layer)
      : f_(f), text_(text), column_(column), layer_(layer) {}

  Step run() {
    Step s;
    const std::string_view name = next();
    const auto it = std::find(words::steps.begin(), words::steps.end(), name);
    if (it == words::steps.end()) {
      fail(fmt::format("unknown step, known are {}", fmt::join(words::steps, ", ")));
      return s;
    }
    s.kind = static_cast<Step::Kind>(it - words::steps.begin());
    switch (s.kind) {
      case Step::Kind::bind:
      case Step::Kind::rebind_other:
      case Step::Kind::rebind_invalid:
      case Step::Kind::rebind_strided:
      case Step::Kind::rebind_same:
        s.seed = seed();
        break;
      case Step::Kind::write:  // the engine's own write: always a slot of the pool, a rank that fits
        s.slot = number("slot", 0, layer_.d.S - 1);
        s.r = number("rank", 0, layer_.d.R);
        s.seed = seed();
        break;
      case Step::Kind::load:
        s.slot = number("slot", INT32_MIN, INT32_MAX);
        s.r = number("rank", 0, 1 << 16);
        s.seed = seed();
        break;
      case Step::Kind::unload:
        s.slot = number("slot", INT32_MIN, INT32_MAX);
        break;
      case Step::Kind::update: {
        const std::string_view word = next();
        if (word != words::all_slots)
          s.ids = word == words::no_slots ? std::vector<std::int64_t>{} : list(word, CaseLimits::max_slots);
        break;
      }
      case Step::Kind::forward: {
        const std::string_view word = next();
        if (word != words::no_slots) {
          const auto slots = list(word, 4096);
          s.slots.assign(slots.begin(), slots.end());
        }
        s.seed = seed();
        break;
      }
    }
    if (!done_) fail("too many parts in the step");
    return s;
  }

 private:
  void fail(std::string what) { f_.fail(column_ + start_, fmt::format("steps: {}", what)); }

  std::string_view next() {
    start_ = std::min(at_, text_.size());  // a part that is missing is missing at the end
    if (done_) {
      fail("the step ends too early");
      return {};
    }
    const std::size_t end = std::min(text_.find(':', at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    done_ = end == text_.size();
    at_ = end + 1;
    return part;
  }

  std::int64_t number(std::string_view what, std::int64_t low, std::int64_t high) {
    const std::string_view part = next();
    if (!f_.ok()) return low;
    auto parsed = parse_integer(part, low, high, what);
    if (auto* error = std::get_if<CaseError>(&parsed)) {
      fail(error->what);
      return low;
    }
    return std::get<std::int64_t>(parsed);
  }

  std::uint64_t seed() {
    const std::string_view part = next();
    std::uint64_t v = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), v);
    if (f_.ok() && (part.empty() || end != part.data() + part.size() || status != std::errc{}))
      fail("seed must be an integer in 0..2^64-1");
    return v;
  }

  std::vector<std::int64_t> list(std::string_view part, std::size_t max_entries) {
    if (!f_.ok()) return {};
    auto parsed = parse_list(part, {max_entries, INT32_MIN, INT32_MAX});
    if (auto* error = std::get_if<CaseError>(&parsed)) {
      start_ += error->column - 1;
      fail(error->what);
      return {};
    }
    return std::get<std::vector<std::int64_t>>(std::move(parsed));
  }

  Fields& f_;
  std::string_view text_;
  std::size_t column_;
  const LayerCase& layer_;
  std::size_t at_ = 0, start_ = 0;
  bool done_ = false;
};

}  // namespace

void parse_steps(Fields& f, std::string_view text, std::size_t column, StateCase& c) {
  std::size_t at = 0;
  while (f.ok()) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    if (c.steps.size() == CaseLimits::max_steps)
      return f.fail(column + at, fmt::format("more than {} steps", CaseLimits::max_steps));
    c.steps.push_back(StepParser(f, text.substr(at, end - at), column + at, c.layer).run());
    if (end == text.size()) return;
    at = end + 1;
  }
}

}  // namespace sinktrap
