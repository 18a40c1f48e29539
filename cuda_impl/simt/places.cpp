#include "cuda_impl/simt/places.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

namespace sinktrap::simt {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// One line for each inlined function, innermost first. addr2line is part of binutils, as the linker is.
std::vector<std::string> addr2line(const std::string& module, std::uintptr_t offset) {
  char number[32];
  std::snprintf(number, sizeof number, "%#llx", static_cast<unsigned long long>(offset));
  std::FILE* pipe = popen(("addr2line -i -e " + quoted(module) + " " + number + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  std::vector<std::string> lines;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    std::string line = buffer;
    line = line.substr(0, line.find_first_of(" \n"));  // without "(discriminator 2)"
    if (line.find('?') == std::string::npos && !line.empty())
      lines.push_back(std::filesystem::path(line).lexically_normal().string());
  }
  pclose(pipe);
  return lines;
}

// Its functions are inlined into kernels; their callers are what a reader wants to see.
bool is_header_of_executor(const std::string& place) {
  return place.find("cuda_impl/simt/") != std::string::npos && place.find("on_cpu.hpp") != std::string::npos;
}

std::string look_up(std::uintptr_t address) {
  Dl_info info{};
  link_map* map = nullptr;
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<void*>(address), &info, &extra, RTLD_DL_LINKMAP) == 0 || extra == nullptr)
    return "an unknown place";
  map = static_cast<link_map*>(extra);
  const std::string module = map->l_name != nullptr && map->l_name[0] != 0 ? map->l_name : "/proc/self/exe";
  std::string path = module;
  if (module == "/proc/self/exe") {  // addr2line is another process
    std::error_code error;
    path = std::filesystem::read_symlink(module, error).string();
  }
  const std::uintptr_t offset = address - map->l_addr;
  const std::vector<std::string> lines =
      addr2line(path, offset - 1);  // the call lies before its return address
  std::string inner, outer;
  for (const std::string& line : lines) {
    if (is_header_of_executor(line)) continue;
    if (inner.empty()) inner = line;
    outer = line;
  }
  if (outer.empty()) {
    char number[32];
    std::snprintf(number, sizeof number, "%#llx", static_cast<unsigned long long>(offset));
    return path + "+" + number + " (no debug information, or no addr2line)";
  }
  return inner == outer ? outer : outer + " (" + inner + ")";
}

}  // namespace

std::string place_of_return_address(std::uintptr_t address) {
  static std::mutex mutex;
  static std::map<std::uintptr_t, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& text = known[address];
  if (text.empty()) text = look_up(address);
  return text;
}

}  // namespace sinktrap::simt
