#include "cases/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cases/lists.hpp"

namespace sinktrap {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The first character from `at` on that is a blank, or none; the line's size if there is no such.
std::size_t next(std::string_view line, std::size_t at, bool blank) {
  while (at < line.size() && is_blank(line[at]) != blank) ++at;
  return at;
}

}  // namespace

Fields::Fields(std::string_view line) {
  if (line.size() > CaseLimits::max_line) {
    fail(1, fmt::format("line of {} bytes, at most {} are read", line.size(), CaseLimits::max_line));
    return;
  }
  std::size_t at = next(line, 0, false);
  if (at == line.size()) {
    fail(1, "empty line, expected layout, forward, state, pack or shard");
    return;
  }
  std::size_t end = next(line, at, true);
  kind_ = line.substr(at, end - at);
  kind_column_ = at + 1;
  fields_.reserve(24);  // more than any kind has
  while ((at = next(line, end, false)) < line.size()) {
    end = next(line, at, true);
    const std::string_view word = line.substr(at, end - at);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      fail(at + 1, fmt::format("expected key=value, found '{}'", shown(word)));
      return;
    }
    const std::string_view key = word.substr(0, equals);
    if (find(key) != nullptr) {
      fail(at + 1, fmt::format("field {} stands twice", shown(key)));
      return;
    }
    fields_.push_back({key, word.substr(equals + 1), at + 1, at + equals + 2});
    if (fields_.size() > 64) {
      fail(at + 1, "more than 64 fields");
      return;
    }
  }
  end_column_ = line.size() + 1;
}

void Fields::fail(std::size_t column, std::string what) {
  if (!error_) error_ = CaseError{column, std::move(what)};
}

Fields::Field* Fields::find(std::string_view key) {
  const auto it = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.key == key; });
  return it == fields_.end() ? nullptr : &*it;
}

Fields::Field* Fields::require(std::string_view key) {
  Field* field = find(key);
  if (field == nullptr)
    fail(end_column_, fmt::format("field {}= is missing in a {} case", key, shown(kind_)));
  else
    field->used = true;
  return field;
}

bool Fields::has(std::string_view key) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& f) { return f.key == key; });
}

std::int64_t Fields::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  Field* field = require(key);
  if (field == nullptr) return low;
  auto parsed = parse_integer(field->value, low, high, key);
  if (auto* error = std::get_if<CaseError>(&parsed)) {
    fail(field->value_column, error->what);
    return low;
  }
  return std::get<std::int64_t>(parsed);
}

std::int64_t Fields::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                std::int64_t fallback) {
  return has(key) ? integer(key, low, high) : fallback;
}

std::uint64_t Fields::unsigned_or(std::string_view key, std::uint64_t fallback) {
  Field* field = find(key);
  if (field == nullptr) return fallback;
  field->used = true;
  std::uint64_t v = 0;
  const char* last = field->value.data() + field->value.size();
  const auto [end, status] = std::from_chars(field->value.data(), last, v);
  if (field->value.empty() || end != last || status != std::errc{})
    fail(field->value_column,
         fmt::format("{} must be an integer in 0..2^64-1, found '{}'", key, shown(field->value)));
  return v;
}

std::vector<std::int64_t> Fields::list(std::string_view key, std::int64_t count, std::size_t max_entries,
                                       std::int64_t low, std::int64_t high) {
  Field* field = require(key);
  if (field == nullptr) return {};
  auto parsed = parse_list(field->value, {max_entries, low, high});
  if (auto* error = std::get_if<CaseError>(&parsed)) {
    fail(field->value_column + error->column - 1, fmt::format("{}: {}", key, error->what));
    return {};
  }
  auto list = std::get<std::vector<std::int64_t>>(std::move(parsed));
  if (count >= 0 && static_cast<std::int64_t>(list.size()) != count) {
    fail(field->value_column, fmt::format("{} must have {} entries, found {}", key, count, list.size()));
    return {};
  }
  return list;
}

int Fields::word(std::string_view key, const std::vector<std::string_view>& words, int fallback) {
  if (fallback >= 0 && !has(key)) return fallback;
  Field* field = require(key);
  if (field == nullptr) return 0;
  const auto it = std::find(words.begin(), words.end(), field->value);
  if (it != words.end()) return static_cast<int>(it - words.begin());
  fail(field->value_column,
       fmt::format("{} must be one of {}, found '{}'", key, fmt::join(words, ", "), shown(field->value)));
  return 0;
}

std::optional<Fields::Text> Fields::text(std::string_view key) {
  Field* field = find(key);
  if (field == nullptr) return std::nullopt;
  field->used = true;
  return Text{field->value, field->value_column};
}

void Fields::finish(std::string_view own, std::string_view common) {
  for (const Field& field : fields_)
    if (!field.used)
      fail(field.column, fmt::format("unknown field {} in a {} case, known are {}{}{}", shown(field.key),
                                     shown(kind_), own, common.empty() ? "" : " ", common));
}

}  // namespace sinktrap
