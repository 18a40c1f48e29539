#include "gate/nightly/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace sinktrap::nightly {
namespace fs = std::filesystem;

void write_whole(const fs::path& path, std::string_view text) {
  const std::string beside = fmt::format("{}.{}.tmp", path.string(), getpid());
  const int file = ::open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  bool good = file >= 0;
  for (std::string_view left = text; good && !left.empty();) {
    const ssize_t n = ::write(file, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) left.remove_prefix(static_cast<std::size_t>(n));
  }
  // On the disk before it has its name: a machine that stops leaves the old file or the new one.
  good = good && fsync(file) == 0;
  const int why = errno;
  if (file >= 0) ::close(file);
  if (good && ::rename(beside.c_str(), path.c_str()) == 0) return;
  const int reason = good ? errno : why;
  ::unlink(beside.c_str());
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(reason)));
}

std::optional<std::string> read_whole(const fs::path& path, std::uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  char block[1 << 14];
  while (text.size() < most && (file.read(block, sizeof block), file.gcount() > 0))
    text.append(block, static_cast<std::size_t>(std::min<std::uint64_t>(
                           static_cast<std::uint64_t>(file.gcount()), most - text.size())));
  return text;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error))
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", folder.string(),
                                         error ? error.message() : "there is a file of that name"));
}

void replace_folder(const fs::path& folder, const fs::path& fresh) {
  std::error_code error;
  make_folder(folder);
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(fresh, error);
    return;
  }
  // A file system without the exchange: file by file, the new ones first, so that no moment has neither.
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder, error)) old.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(fresh, error)) {
    const fs::path to = folder / entry.path().filename();
    old.erase(std::remove(old.begin(), old.end(), to), old.end());
    fs::rename(entry.path(), to, error);
  }
  for (const fs::path& path : old) fs::remove(path, error);
  fs::remove_all(fresh, error);
}

std::int64_t trim_folder(const fs::path& folder, std::uint64_t bytes, std::uint64_t files) {
  std::error_code error;
  std::vector<std::pair<std::uint64_t, fs::path>> all;
  std::uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::uint64_t size = entry.file_size(error);
    if (error) continue;
    all.emplace_back(size, entry.path());
    sum += size;
  }
  std::sort(all.begin(), all.end());
  std::int64_t removed = 0;
  while (!all.empty() && (sum > bytes || all.size() > files)) {
    fs::remove(all.back().second, error);
    sum -= all.back().first;
    all.pop_back();
    ++removed;
  }
  return removed;
}

FolderSize folder_size(const fs::path& folder) {
  FolderSize size;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    ++size.files;
    size.bytes += entry.file_size(error);
  }
  return size;
}

std::string digest(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", h);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace sinktrap::nightly
