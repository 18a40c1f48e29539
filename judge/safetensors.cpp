#include "judge/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <vector>

namespace sinktrap {
namespace {

using nlohmann::json;
using Result = std::variant<SafetensorsFile, SafetensorsError>;

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  const char* name;
  Element type;
};
constexpr std::array<TypeName, 6> kTypes = {{{"BF16", Element::bf16},
                                             {"F16", Element::f16},
                                             {"F32", Element::f32},
                                             {"F64", Element::f64},
                                             {"I32", Element::i32},
                                             {"I64", Element::i64}}};

// A refusal on its way up; never leaves this file.
struct Refused {
  std::string why;
};

[[noreturn]] void refuse(std::string what, const std::string& found, const std::string& expected) {
  throw Refused{std::move(what) + ": found " + found + ", expected " + expected};
}

// A text from the file in quotes, on one line and of bounded length.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;  // fits a line with what stands around it
  std::string out = "\"";
  for (const char c : text.substr(0, longest)) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '"' && c != '\\') {
      out += c;
      continue;
    }
    char escape[5];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
    out += escape;
  }
  return out + (text.size() > longest ? "...\"" : "\"");
}

std::string kind_of(const json& value) { return value.type_name(); }

// The parser of nlohmann-json descends once for each bracket; this looks first, without a stack.
void check_nesting(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > SafetensorsLimits::max_nesting)
        refuse("header nested too deeply at byte " + std::to_string(i), std::to_string(depth),
               "at most " + std::to_string(SafetensorsLimits::max_nesting));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

// nlohmann-json keeps the last of two equal keys; the format allows one. A pass of its own, because the
// parser with a callback looks through all the siblings at the end of every object.
struct KeyWatch : nlohmann::json_sax<json> {
  std::vector<std::set<std::string>> open;  // keys of the objects around
  std::optional<std::string> duplicate;
  bool key(std::string& name) override {
    if (!open.back().insert(name).second) duplicate = name;
    return !duplicate;
  }
  bool start_object(std::size_t) override {
    open.emplace_back();
    return true;
  }
  bool end_object() override {
    open.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
};

json parse_header(std::string_view text) {
  if (text.empty() || text.front() != '{')
    refuse("header", text.empty() ? "nothing" : in_quotes(text.substr(0, 1)), "\"{\"");
  check_nesting(text);
  KeyWatch watch;
  const bool is_json = json::sax_parse(text.begin(), text.end(), &watch);
  if (watch.duplicate) refuse("header: the key " + in_quotes(*watch.duplicate), "twice", "once");
  if (!is_json) refuse("header", in_quotes(text), "JSON");
  return json::parse(text.begin(), text.end(), nullptr, false);
}

// A number of bytes or elements: an integer in 0 .. 2^63 - 1.
std::int64_t count_of(const json& value, const std::string& where) {
  const std::string expected = "an integer in 0..2^63-1";
  if (!value.is_number_unsigned())
    refuse(where, value.is_number() ? in_quotes(value.dump()) : kind_of(value), expected);
  const auto count = value.get<std::uint64_t>();
  if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    refuse(where, std::to_string(count), expected);
  return static_cast<std::int64_t>(count);
}

struct Entry {
  std::string name;
  Element type = Element::f32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes of the data
};

Element type_of(const json& value, const std::string& where) {
  if (!value.is_string()) refuse(where + ": dtype", kind_of(value), "a string");
  const auto& name = value.get_ref<const std::string&>();
  for (const TypeName& row : kTypes)
    if (name == row.name) return row.type;
  refuse(where + ": dtype", in_quotes(name), "BF16, F16, F32, F64, I32 or I64");
}

Entry entry_of(const std::string& name, const json& value, std::int64_t data_bytes) {
  const std::string where = "tensor " + in_quotes(name);
  if (!value.is_object()) refuse(where, kind_of(value), "an object");
  if (value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    refuse(where, std::to_string(value.size()) + " keys", "dtype, shape and data_offsets");
  Entry entry;
  entry.name = name;
  entry.type = type_of(value["dtype"], where);
  if (!value["shape"].is_array()) refuse(where + ": shape", kind_of(value["shape"]), "an array");
  std::int64_t bytes = element_bytes(entry.type);
  for (const json& extent : value["shape"]) {
    entry.shape.push_back(count_of(extent, where + ": shape"));
    // In the order of the axes, so that the product is safe for whoever multiplies it again.
    if (bytes != 0 && entry.shape.back() > std::numeric_limits<std::int64_t>::max() / bytes)
      refuse(where + ": shape", "more than 2^63-1 bytes", "at most " + std::to_string(data_bytes));
    bytes *= entry.shape.back();
  }
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    refuse(where + ": data_offsets",
           offsets.is_array() ? std::to_string(offsets.size()) + " numbers" : kind_of(offsets),
           "two numbers");
  entry.begin = count_of(offsets[0], where + ": data_offsets");
  entry.end = count_of(offsets[1], where + ": data_offsets");
  if (entry.begin > entry.end)
    refuse(where + ": data_offsets", std::to_string(entry.begin) + " before " + std::to_string(entry.end),
           "begin <= end");
  if (entry.end > data_bytes)
    refuse(where + ": end of data", std::to_string(entry.end), "at most " + std::to_string(data_bytes));
  if (entry.end - entry.begin != bytes)
    refuse(where + ": bytes", std::to_string(entry.end - entry.begin),
           std::to_string(bytes) + " by its shape");
  return entry;
}

// The tensors in the order of their data cover it without gap or overlap.
void check_coverage(std::vector<Entry>& entries, std::int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered)
      refuse("tensor " + in_quotes(entry.name) + ": begin of data", std::to_string(entry.begin),
             std::to_string(covered) + ", where the one before ends");
    covered = entry.end;
  }
  if (covered != data_bytes)
    refuse("data", std::to_string(data_bytes) + " bytes", std::to_string(covered) + " by the header");
}

SafetensorsFile parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes)
    refuse("file", std::to_string(bytes.size()) + " bytes", "at least 8, the length of the header");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    header_bytes |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  const std::uint64_t most =
      std::min<std::uint64_t>(bytes.size() - kLengthBytes, SafetensorsLimits::max_header_bytes);
  if (header_bytes > most)
    refuse("length of the header", std::to_string(header_bytes), "at most " + std::to_string(most));
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const json header = parse_header({text, static_cast<std::size_t>(header_bytes)});
  const auto data = bytes.subspan(kLengthBytes + static_cast<std::size_t>(header_bytes));
  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() != kMetadata) {
      entries.push_back(entry_of(item.key(), item.value(), static_cast<std::int64_t>(data.size())));
      continue;
    }
    if (!item.value().is_object()) refuse(kMetadata, kind_of(item.value()), "an object");
    for (const auto& pair : item.value().items()) {
      if (!pair.value().is_string())
        refuse(std::string(kMetadata) + " " + in_quotes(pair.key()), kind_of(pair.value()), "a string");
      file.metadata[pair.key()] = pair.value().get<std::string>();
    }
  }
  check_coverage(entries, static_cast<std::int64_t>(data.size()));
  for (Entry& entry : entries) {
    Tensor tensor(entry.type, std::move(entry.shape));
    if (entry.begin != entry.end)
      std::memcpy(tensor.bytes().data(), data.data() + entry.begin,
                  static_cast<std::size_t>(entry.end - entry.begin));
    file.tensors.emplace(std::move(entry.name), std::move(tensor));
  }
  return file;
}

}  // namespace

Result parse_safetensors(std::span<const std::byte> bytes) {
  try {
    return parse(bytes);
  } catch (const Refused& refused) {
    return refused.why;
  } catch (const std::bad_alloc&) {
    return "file of " + std::to_string(bytes.size()) + " bytes does not fit in memory";
  }
}

Result read_safetensors(const std::filesystem::path& path) {
  std::error_code error;
  // A pipe or a device may never end.
  if (!std::filesystem::is_regular_file(path, error)) return path.string() + ": found no regular file";
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return path.string() + ": cannot be opened for reading";
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<std::size_t>(size));
  } catch (const std::exception&) {
    return path.string() + ": " + std::to_string(size) + " bytes do not fit in memory";
  }
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(in.gcount()) != size)
    return path.string() + ": found " + std::to_string(in.gcount()) + " bytes, expected " +
           std::to_string(size);
  Result result = parse_safetensors(bytes);
  if (auto* why = std::get_if<SafetensorsError>(&result)) *why = path.string() + ": " + *why;
  return result;
}

std::optional<std::string> safetensors_bytes(const SafetensorsFile& file) {
  std::vector<const std::pair<const std::string, Tensor>*> order;
  for (const auto& named : file.tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return element_bytes(a->second.type()) > element_bytes(b->second.type());
  });
  json header = json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::size_t end = 0;
  for (const auto* named : order) {
    if (named->first == kMetadata) return std::nullopt;
    const Tensor& tensor = named->second;
    const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&tensor](const TypeName& t) { return t.type == tensor.type(); });
    const std::size_t begin = end;
    end += tensor.bytes().size();
    header[named->first] = {{"dtype", row->name}, {"shape", tensor.shape()}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    return std::nullopt;  // not UTF-8
  }
  text.resize((text.size() + 7) / 8 * 8,
              ' ');  // as the format's own writer pads, so that the data is aligned to 8
  std::string bytes(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  bytes += text;
  for (const auto* named : order) {
    const auto data = named->second.bytes();
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return bytes;
}

std::optional<SafetensorsError> write_safetensors(const std::filesystem::path& path,
                                                  const SafetensorsFile& file) {
  const auto bytes = safetensors_bytes(file);
  if (!bytes) return path.string() + ": a name or text is not UTF-8, or a tensor has the name " + kMetadata;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  out.close();
  if (!out) return path.string() + ": cannot be written";
  return std::nullopt;
}

}  // namespace sinktrap
