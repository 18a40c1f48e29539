// Files that are whole or not there, whatever kills the process.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sinktrap::nightly {

// Writes beside `path`, then renames. Throws std::runtime_error with the path when it cannot be written.
void write_whole(const std::filesystem::path& path, std::string_view text);

// Absent when it cannot be read; at most `most` bytes of it.
std::optional<std::string> read_whole(const std::filesystem::path& path, std::uint64_t most = UINT64_MAX);

// Makes the folder and its parents. Throws std::runtime_error when that fails.
void make_folder(const std::filesystem::path& folder);

// `fresh` takes the place of `folder`, in one step where the file system can; the old content is removed.
void replace_folder(const std::filesystem::path& folder, const std::filesystem::path& fresh);

// Removes files, the largest first, until the folder is within both limits; how many.
std::int64_t trim_folder(const std::filesystem::path& folder, std::uint64_t bytes, std::uint64_t files);

struct FolderSize {
  std::int64_t files = 0;
  std::uint64_t bytes = 0;
};
FolderSize folder_size(const std::filesystem::path& folder);

// 16 hexadecimal digits, FNV-1a: names of files by their content.
std::string digest(std::string_view bytes);

// "2026-01-31T23:59:59Z"
std::string utc_now();

}  // namespace sinktrap::nightly
