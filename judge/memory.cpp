#include "judge/memory.hpp"

#include <algorithm>
#include <fstream>

namespace sinktrap {
namespace {

// The number that a file starts with, or `otherwise` (a cgroup without a limit says "max").
std::int64_t number_in(const std::string& path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

std::int64_t available_memory(const std::string& meminfo, const std::string& cgroup) {
  std::int64_t available = INT64_MAX;
  std::ifstream file(meminfo);
  for (std::string key; file >> key;) {
    std::int64_t kib = 0;
    if (key == "MemAvailable:" && file >> kib) available = kib * 1024;
    std::getline(file, key);
  }
  const std::int64_t limit = number_in(cgroup + "/memory.max", INT64_MAX);
  if (limit == INT64_MAX) return available;
  return std::min(available, std::max<std::int64_t>(0, limit - number_in(cgroup + "/memory.current", 0)));
}

std::int64_t available_memory() { return available_memory("/proc/meminfo", "/sys/fs/cgroup"); }

}  // namespace sinktrap
