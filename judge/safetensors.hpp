// Files of named tensors in the safetensors format, read with every length and offset checked, and written.
//
// Source of the format: the README of huggingface/safetensors. A file is an unsigned 64-bit little-endian
// length, that many bytes of JSON, then the data. The JSON maps each tensor's name to {"dtype", "shape",
// "data_offsets": [begin, end)} with offsets in bytes from the start of the data; "__metadata__" maps strings
// to strings. The tensors cover the data without gap or overlap.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "cases/tensor.hpp"

namespace sinktrap {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// What went wrong: one line with what, where, found and expected.
using SafetensorsError = std::string;

struct SafetensorsLimits {
  static constexpr std::uint64_t max_header_bytes = 16 << 20;  // 2^17 tensors of 128 bytes each
  static constexpr int max_nesting = 4;                        // the format itself has 3: file, tensor, shape
};

// Element types: BF16 F16 F32 F64 I32 I64. Never throws; memory stays below 64 times the file's size (the
// worst is a header of many short keys) whatever the bytes say.
std::variant<SafetensorsFile, SafetensorsError> parse_safetensors(std::span<const std::byte> bytes);
// The same for a regular file; the error starts with the path.
std::variant<SafetensorsFile, SafetensorsError> read_safetensors(const std::filesystem::path& path);

// The file's bytes: the widest elements first, so that all are aligned to their size, then by name. Empty
// with a name or text that is not UTF-8, or a tensor that is named "__metadata__".
std::optional<std::string> safetensors_bytes(const SafetensorsFile& file);
// Empty when the file has been written, else why not.
std::optional<SafetensorsError> write_safetensors(const std::filesystem::path& path,
                                                  const SafetensorsFile& file);

}  // namespace sinktrap
