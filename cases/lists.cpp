#include "cases/lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sinktrap {
namespace {

std::string quoted(std::string_view text) { return fmt::format("'{}'", shown(text)); }

class ListParser {
 public:
  ListParser(std::string_view text, const ListLimits& limits) : text_(text), limits_(limits) {}

  std::variant<std::vector<std::int64_t>, CaseError> run() {
    std::vector<std::int64_t> all;
    while (true) {
      if (!item(all)) return error_;
      if (at_ == text_.size()) return all;
      if (text_[at_] != ',') {
        fail(fmt::format("expected ',' between list entries, found {}", quoted(text_.substr(at_))));
        return error_;
      }
      ++at_;
    }
  }

 private:
  void fail(std::string what) { error_ = {at_ + 1, std::move(what)}; }

  // One value or one group in parentheses, with an optional *count.
  bool item(std::vector<std::int64_t>& all) {
    std::vector<std::int64_t> group;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      while (true) {
        if (!value(group)) return false;
        if (at_ < text_.size() && text_[at_] == ')') break;
        if (at_ >= text_.size() || text_[at_] != ',') {
          fail("expected ',' or ')' in a repeated group");
          return false;
        }
        ++at_;
      }
      ++at_;
      if (at_ >= text_.size() || text_[at_] != '*') {
        fail("expected '*' and a count after a group");
        return false;
      }
    } else if (!value(group)) {
      return false;
    }
    std::int64_t count = 1;
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      if (!integer(count, 1, static_cast<std::int64_t>(limits_.max_entries), "repetition count"))
        return false;
    }
    if (all.size() + group.size() * static_cast<std::size_t>(count) > limits_.max_entries) {
      fail(fmt::format("list longer than {} entries", limits_.max_entries));
      return false;
    }
    for (std::int64_t i = 0; i < count; ++i) all.insert(all.end(), group.begin(), group.end());
    return true;
  }

  bool value(std::vector<std::int64_t>& group) {
    if (group.size() >= limits_.max_entries) {
      fail(fmt::format("list longer than {} entries", limits_.max_entries));
      return false;
    }
    std::int64_t v = 0;
    if (!integer(v, limits_.low, limits_.high, "list entry")) return false;
    group.push_back(v);
    return true;
  }

  bool integer(std::int64_t& v, std::int64_t low, std::int64_t high, std::string_view what) {
    std::size_t end = at_;
    while (end < text_.size() && (text_[end] == '-' || (text_[end] >= '0' && text_[end] <= '9'))) ++end;
    auto parsed = parse_integer(text_.substr(at_, end - at_), low, high, what);
    if (auto* error = std::get_if<CaseError>(&parsed)) {
      fail(error->what);
      return false;
    }
    v = std::get<std::int64_t>(parsed);
    at_ = end;
    return true;
  }

  std::string_view text_;
  ListLimits limits_;
  std::size_t at_ = 0;
  CaseError error_;
};

std::string print_runs(const std::vector<std::int64_t>& list, std::size_t shortest_run) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t j = i;
    while (j < list.size() && list[j] == list[i]) ++j;
    const std::size_t run = j - i;
    if (!text.empty()) text += ',';
    if (run >= shortest_run) {
      text += fmt::format("{}*{}", list[i], run);
      i = j;
    } else {
      text += std::to_string(list[i]);
      ++i;
    }
  }
  return text;
}

}  // namespace

std::string shown(std::string_view text) {
  std::string clean;
  for (char c : text.substr(0, 40)) clean += (c >= ' ' && c <= '~') ? c : '?';
  return clean + (text.size() > 40 ? "..." : "");
}

std::variant<std::int64_t, CaseError> parse_integer(std::string_view text, std::int64_t low,
                                                    std::int64_t high, std::string_view what) {
  std::int64_t v = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (text.empty() || end != text.data() + text.size() || status == std::errc::invalid_argument)
    return CaseError{1, fmt::format("expected an integer for {}, found {}", what, quoted(text))};
  if (status == std::errc::result_out_of_range || v < low || v > high)
    return CaseError{1, fmt::format("{} must be in {}..{}, found {}", what, low, high, quoted(text))};
  return v;
}

std::variant<std::vector<std::int64_t>, CaseError> parse_list(std::string_view text,
                                                              const ListLimits& limits) {
  return ListParser(text, limits).run();
}

std::string print_list(const std::vector<std::int64_t>& list) {
  constexpr std::size_t kWrittenOut = 32, kEqual = 4;
  const bool all_equal = std::all_of(list.begin(), list.end(), [&](std::int64_t v) { return v == list[0]; });
  if (list.size() <= kWrittenOut && !(all_equal && list.size() > kEqual))
    return print_runs(list, list.size() + 1);
  if (all_equal) return print_runs(list, 2);
  // One group repeated over the whole list, if it is short.
  for (std::size_t period = 2; period <= kWrittenOut && period * 2 <= list.size(); ++period) {
    if (list.size() % period != 0) continue;
    if (!std::equal(list.begin() + static_cast<std::ptrdiff_t>(period), list.end(), list.begin())) continue;
    const std::vector<std::int64_t> group(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(period));
    return fmt::format("({})*{}", print_runs(group, period + 1), list.size() / period);
  }
  return print_runs(list, 3);
}

}  // namespace sinktrap
