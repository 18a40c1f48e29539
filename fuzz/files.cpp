#include "fuzz/files.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <set>
#include <sstream>

#include "cases/names.hpp"
#include "contract/element.hpp"
#include "fuzz/table_line.hpp"

namespace sinktrap::fuzz {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "\x01\\" as two bytes; an error's column counts from 1.
struct Unescaped {
  std::string bytes, error;
};
Unescaped unescaped(std::string_view line) {
  std::string bytes;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      bytes += line[i];
      continue;
    }
    unsigned value = 0;
    const char* digits = line.data() + i + 2;
    if (i + 1 < line.size() && line[i + 1] == '\\') {
      bytes += '\\';
      ++i;
    } else if (i + 3 < line.size() && line[i + 1] == 'x' &&
               std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      bytes += static_cast<char>(value);
      i += 3;
    } else {
      return {"", std::to_string(i + 1) + ": expected \\\\ or \\xNN after a backslash"};
    }
  }
  return {bytes, ""};
}

}  // namespace

std::string dictionary_text() {
  std::set<std::string> all;
  const auto add = [&](std::string_view word, std::string_view before = "", std::string_view after = "") {
    all.insert(std::string(before) + std::string(word) + std::string(after));
  };
  const auto add_list = [&](const std::vector<std::string_view>& list, std::string_view before = "",
                            std::string_view after = "") {
    for (const std::string_view word : list) add(word, before, after);
  };
  const auto add_keys = [&](std::string_view keys) {
    for (std::size_t at = 0; at < keys.size();) {
      const std::size_t end = std::min(keys.find(' ', at), keys.size());
      add(keys.substr(at, end - at), " ", "=");
      at = end + 1;
    }
  };
  add_list(words::kinds, "", " ");
  for (const std::string_view keys :
       {words::layer_fields, words::layer_fields_without_w13, words::layout_fields, words::forward_fields,
        words::state_fields, words::pack_fields, words::shard_fields, kTableFields})
    add_keys(keys);
  for (const auto* list : {&words::expert_layouts, &words::w13_layouts, &words::storage_types, &words::fills,
                           &words::factors, &words::profiles})
    add_list(*list);
  add_list(words::puts, "", "@");
  add_list(words::put_tensors, "", ":");
  add_list(words::steps, "", ":");
  add_list(words::buffer_suffixes, "/", "=");
  for (const std::string_view word : {words::no_extents, words::all_slots, words::no_slots, kTableKind})
    add(word);
  for (const Element e : {Element::f64, Element::i32, Element::i64}) add(element_name(e));
  // Numbers at the edges of what a parser reads them into, and the brackets of lists.
  for (const std::string_view word :
       {"9223372036854775807", "-9223372036854775808", "18446744073709551615", "2147483648", "4294967296",
        "-1", ")*", "1e+06", "0x", "\"dtype\":", "\"shape\":[", "\"data_offsets\":[", "\"__metadata__\":{",
        "\"BF16\"", "\"F16\"", "\"F32\"", "\"F64\"", "\"I32\"", "\"I64\""})
    add(word);
  std::string text =
      "# Words of the inputs, for libFuzzer's -dict. Written by `fuzz_files dictionary`; fuzz_test "
      "compares.\n";
  for (const std::string& word : all) {
    text += '"';
    for (const char c : word) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += "\"\n";
  }
  return text;
}

std::variant<std::vector<Input>, std::string> read_inputs(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fmt::format("{}: cannot be read; expected a file of inputs", path);
  std::vector<Input> inputs;
  const bool escaped = ends_with(path, ".bytes");
  if (!escaped && !ends_with(path, ".cases")) {
    std::ostringstream text;
    text << file.rdbuf();
    inputs.push_back({text.str(), "", path});
    return inputs;
  }
  std::string line, reason;
  bool used =
      false;  // the reason is that of an input already; more inputs may share it, a new comment begins anew
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || (line[0] == '#' && used)) reason.clear(), used = false;
    if (line.empty()) continue;
    if (line[0] == '#') {
      const std::size_t text = line.find_first_not_of("# ");
      if (text != std::string::npos) reason += (reason.empty() ? "" : " ") + line.substr(text);
      continue;
    }
    Input input{line, reason, fmt::format("{}:{}", path, number)};
    if (escaped) {
      auto bytes = unescaped(line);
      if (!bytes.error.empty()) return fmt::format("{}:{}:{}", path, number, bytes.error);
      input.bytes = std::move(bytes.bytes);
    }
    inputs.push_back(std::move(input));
    used = true;
  }
  return inputs;
}

}  // namespace sinktrap::fuzz
