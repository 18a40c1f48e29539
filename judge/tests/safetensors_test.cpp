// The safetensors reader: round trips, the vectors of corpus/, and every kind of damage.
#include "judge/safetensors.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace sinktrap {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A file of this header and data, the length in front.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

// The refusal; empty when the file was accepted.
std::string why(const std::string& bytes) {
  auto result = parse_safetensors(as_bytes(bytes));
  const auto* error = std::get_if<SafetensorsError>(&result);
  return error == nullptr ? "" : *error;
}

SafetensorsFile small_file() {
  SafetensorsFile file;
  file.metadata = {{"kind", "test \"quoted\""}, {"n", "2"}};
  for (Element e : {Element::bf16, Element::f16, Element::f32, Element::f64, Element::i32, Element::i64}) {
    Tensor t(e, {2, 3});
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(i * 3 - 4));
    file.tensors.emplace(std::string(element_name(e)) + ".x", std::move(t));
  }
  file.tensors.emplace("empty", Tensor(Element::f32, {0, 7}));
  file.tensors.emplace("scalar", Tensor(Element::f64, {}));
  return file;
}

void expect_same(const SafetensorsFile& a, const SafetensorsFile& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& named : a.tensors) {
    ASSERT_TRUE(b.tensors.count(named.first)) << named.first;
    EXPECT_TRUE(named.second.same_bits(b.tensors.at(named.first))) << named.first;
  }
}

TEST(Safetensors, what_is_written_is_read_back) {
  const fs::path path = fs::path(testing::TempDir()) / "sinktrap_round_trip.safetensors";
  ASSERT_EQ(write_safetensors(path, small_file()), std::nullopt);
  const auto result = read_safetensors(path);
  fs::remove(path);
  ASSERT_TRUE(std::holds_alternative<SafetensorsFile>(result)) << std::get<SafetensorsError>(result);
  expect_same(std::get<SafetensorsFile>(result), small_file());
}

TEST(Safetensors, file_without_tensors_is_a_file) {
  EXPECT_EQ(why(file_of("{}")), "");
  EXPECT_EQ(why(file_of("{}   ")), "");
}

TEST(Safetensors, refusal_names_what_where_found_and_expected) {
  const std::string f32 = R"("dtype":"F32")";
  struct Row {
    std::string bytes, expected;
  };
  const std::vector<Row> rows = {
      {"", "file: found 0 bytes, expected at least 8, the length of the header"},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), "length of the header: found 3, expected at most 2"},
      {std::string(8, '\xff'), "length of the header: found 18446744073709551615, expected at most 0"},
      {file_of(" {}"), R"(header: found " ", expected "{")"},
      {file_of("{]"), R"(header: found "{]", expected JSON)"},
      {file_of("{}{}"), R"(header: found "{}{}", expected JSON)"},
      {file_of(R"({"a":{"b":[[[0]]]}})"), "header nested too deeply at byte 12: found 5, expected at most 4"},
      {file_of(R"({"__metadata__":{"a":1}})"), R"(__metadata__ "a": found number, expected a string)"},
      {file_of(R"({"__metadata__":[]})"), "__metadata__: found array, expected an object"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"),
       R"(header: the key "a": found twice, expected once)"},
      {file_of(R"({"a":7})"), R"(tensor "a": found number, expected an object)"},
      {file_of(R"({"a":{)" + f32 + "}}"),
       R"(tensor "a": found 1 keys, expected dtype, shape and data_offsets)"},
      {file_of(R"({"a":{"dtype":"BOOL","shape":[0],"data_offsets":[0,0]}})"),
       R"(tensor "a": dtype: found "BOOL", expected BF16, F16, F32, F64, I32 or I64)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[-1],"data_offsets":[0,0]}})"),
       R"(tensor "a": shape: found "-1", expected an integer in 0..2^63-1)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[9223372036854775808],"data_offsets":[0,0]}})"),
       R"(tensor "a": shape: found 9223372036854775808, expected an integer in 0..2^63-1)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})"),
       R"(tensor "a": shape: found more than 2^63-1 bytes, expected at most 0)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[0,4,4]}})"),
       R"(tensor "a": data_offsets: found 3 numbers, expected two numbers)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[0,1.5]}})"),
       R"(tensor "a": data_offsets: found "1.5", expected an integer in 0..2^63-1)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[4,0]}})", "1234"),
       R"(tensor "a": data_offsets: found 4 before 0, expected begin <= end)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[0,4]}})", "123"),
       R"(tensor "a": end of data: found 4, expected at most 3)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[2],"data_offsets":[0,4]}})", "1234"),
       R"(tensor "a": bytes: found 4, expected 8 by its shape)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[0,4]}})", "12345"),
       "data: found 5 bytes, expected 4 by the header"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[1,5]}})", "12345"),
       R"(tensor "a": begin of data: found 1, expected 0, where the one before ends)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[1],"data_offsets":[0,4]},"b":{)" + f32 +
                   R"(,"shape":[1],"data_offsets":[2,6]}})",
               "123456"),
       R"(tensor "b": begin of data: found 2, expected 4, where the one before ends)"},
      {file_of("{\"a\":{" + f32 + R"(,"shape":[0],"data_offsets":[0,0]},"a":{)" + f32 +
               R"(,"shape":[0],"data_offsets":[0,0]}})"),
       R"(header: the key "a": found twice, expected once)"},
      {file_of("{\"a\\nb\":0}"), R"(tensor "a\x0ab": found number, expected an object)"},
  };
  for (const Row& row : rows) EXPECT_EQ(why(row.bytes), row.expected);
}

TEST(Safetensors, equal_keys_of_different_objects_are_not_duplicates) {
  EXPECT_EQ(why(file_of(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                        R"("b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})")),
            "");
}

TEST(Safetensors, deep_nesting_is_refused_before_it_is_parsed) {
  std::string deep(1 << 20, '[');
  EXPECT_NE(why(file_of("{\"a\":" + deep)).find("nested too deeply"), std::string::npos);
  // Brackets in a string nest nothing.
  EXPECT_EQ(why(file_of(R"({"__metadata__":{"a":"[[[[[[\"[[[["}})")), "");
}

// nlohmann-json's parser with a callback looks through all siblings at the end of each object: half an hour
// for this.
TEST(Safetensors, header_of_a_million_objects_is_refused_in_linear_time) {
  std::string header = R"({"a":[)";
  for (int i = 0; i < 1000000; ++i) header += "{},";
  EXPECT_EQ(why(file_of(header + "{}]}")), R"(tensor "a": found array, expected an object)");
}

TEST(Safetensors, header_longer_than_the_limit_is_refused) {
  const std::string header = "{}" + std::string(SafetensorsLimits::max_header_bytes, ' ');
  EXPECT_EQ(why(file_of(header)), "length of the header: found 16777218, expected at most 16777216");
}

TEST(Safetensors, every_truncation_is_refused) {
  const std::string whole = safetensors_bytes(small_file()).value();
  ASSERT_EQ(why(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(why(whole.substr(0, size)), "") << size;
}

TEST(Safetensors, flipped_bit_is_refused_or_leaves_consistent_tensors) {
  const std::string whole = safetensors_bytes(small_file()).value();
  const std::size_t data_begin = whole.size() - std::size_t{6} * (2 + 2 + 4 + 4 + 8 + 8) - 8;
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto result = parse_safetensors(as_bytes(flipped));
    if (const auto* file = std::get_if<SafetensorsFile>(&result)) {
      std::size_t bytes = 0;
      for (const auto& named : file->tensors) {
        bytes += named.second.bytes().size();
        EXPECT_EQ(static_cast<std::int64_t>(named.second.bytes().size()),
                  named.second.size() * element_bytes(named.second.type()));
      }
      EXPECT_EQ(bytes, whole.size() - data_begin) << bit;
    } else {
      ++refused;
      EXPECT_LT(bit / 8, data_begin) << "data may hold any bits";
      EXPECT_EQ(std::get<SafetensorsError>(result).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 8 * data_begin / 3);  // names and metadata may change into others, structure may not
}

TEST(Safetensors, what_is_no_regular_file_is_refused) {
  const auto directory = read_safetensors(testing::TempDir());
  EXPECT_TRUE(std::holds_alternative<SafetensorsError>(directory));
  const auto absent = read_safetensors(fs::path(testing::TempDir()) / "sinktrap_absent.safetensors");
  ASSERT_TRUE(std::holds_alternative<SafetensorsError>(absent));
  EXPECT_NE(std::get<SafetensorsError>(absent).find("found no regular file"), std::string::npos);
}

TEST(Safetensors, writer_refuses_what_it_could_not_read_back) {
  SafetensorsFile file;
  file.tensors.emplace("__metadata__", Tensor(Element::f32, {1}));
  EXPECT_EQ(safetensors_bytes(file), std::nullopt);
  file.tensors.clear();
  file.metadata["k"] = "\xff";
  EXPECT_EQ(safetensors_bytes(file), std::nullopt);
}

TEST(Safetensors, vectors_of_the_corpus_are_read_and_written_alike) {
  std::size_t files = 0;
  for (const char* folder : {"forward", "pack"})
    for (const auto& item :
         fs::directory_iterator(fs::path(SINKTRAP_SOURCE_DIR) / "corpus/vectors" / folder)) {
      if (item.path().extension() != ".safetensors") continue;
      ++files;
      const auto result = read_safetensors(item.path());
      ASSERT_TRUE(std::holds_alternative<SafetensorsFile>(result)) << std::get<SafetensorsError>(result);
      const auto& file = std::get<SafetensorsFile>(result);
      EXPECT_TRUE(file.metadata.count("kind")) << item.path();
      EXPECT_TRUE(file.metadata.count("n")) << item.path();
      const auto again = parse_safetensors(as_bytes(safetensors_bytes(file).value()));
      ASSERT_TRUE(std::holds_alternative<SafetensorsFile>(again)) << std::get<SafetensorsError>(again);
      expect_same(file, std::get<SafetensorsFile>(again));
    }
  EXPECT_EQ(files, 29u);  // 26 of forward, 3 of pack
}

}  // namespace
}  // namespace sinktrap
