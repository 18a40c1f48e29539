// A case line cut into its kind and key=value fields, each with its column; and typed access that remembers
// which fields were used, so that what is left over is refused.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case.hpp"

namespace sinktrap {

class Fields {
 public:
  // Splits at blanks. Failures are kept: check ok() before use.
  explicit Fields(std::string_view line);

  bool ok() const { return !error_.has_value(); }
  const CaseError& error() const { return *error_; }
  std::string_view kind() const { return kind_; }
  std::size_t kind_column() const { return kind_column_; }

  // The first failure wins; later calls then return defaults.
  void fail(std::size_t column, std::string what);

  bool has(std::string_view key) const;
  // Required integer.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::int64_t integer_or(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback);
  std::uint64_t unsigned_or(std::string_view key, std::uint64_t fallback);
  // Required list of exactly `count` entries (count < 0: any number up to max_entries).
  std::vector<std::int64_t> list(std::string_view key, std::int64_t count, std::size_t max_entries,
                                 std::int64_t low, std::int64_t high);
  // One of the words; returns its index. Without the field: `fallback`, or a failure if that is negative.
  int word(std::string_view key, const std::vector<std::string_view>& words, int fallback);
  // The raw text and the column of its first character.
  struct Text {
    std::string_view value;
    std::size_t column;
  };
  std::optional<Text> text(std::string_view key);

  // Refuses fields that nobody asked for; the known ones, those of the kind and those of a layer, are named.
  void finish(std::string_view own, std::string_view common = {});

 private:
  struct Field {
    std::string_view key, value;
    std::size_t column, value_column;
    bool used = false;
  };
  Field* find(std::string_view key);
  Field* require(std::string_view key);

  std::string_view kind_;
  std::size_t kind_column_ = 1;
  std::size_t end_column_ = 1;
  std::vector<Field> fields_;
  std::optional<CaseError> error_;
};

}  // namespace sinktrap
