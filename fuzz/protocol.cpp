#include "fuzz/protocol.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "mutants/mutants.hpp"

namespace sinktrap::fuzz {
namespace {

constexpr std::size_t kCurrentBytes = 64 << 10;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

[[noreturn]] void bad_input(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", kTarget, what.c_str());
  std::exit(2);
}

std::string findings_folder() {
  static const std::string folder = [] {
    std::string f(variable("SINKTRAP_FUZZ_FINDINGS"));
    struct stat s {};
    if (!f.empty() && (stat(f.c_str(), &s) != 0 || !S_ISDIR(s.st_mode) || access(f.c_str(), W_OK) != 0))
      bad_input(
          fmt::format("SINKTRAP_FUZZ_FINDINGS={}: expected a folder that can be written; make it first", f));
    return f;
  }();
  return folder;
}

// A page of the file NAME.current; null without a folder.
char* current_memory() {
  static char* const memory = []() -> char* {
    if (findings_folder().empty()) return nullptr;
    const std::string path = fmt::format("{}/{}.current", findings_folder(), kTarget);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, kCurrentBytes) != 0)
      bad_input(fmt::format("{}: cannot be written", path));
    void* mapped = mmap(nullptr, kCurrentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
  }();
  return memory;
}

UnderTest open_one(const std::string& argument) {
  constexpr std::string_view kMutant = "mutant:";
  if (argument.compare(0, kMutant.size(), kMutant) == 0) {
    const std::string name = argument.substr(kMutant.size());
    const auto& all = mutants();
    const auto it = std::find_if(all.begin(), all.end(), [&](const Mutant& m) { return m.name == name; });
    if (it == all.end() && name != "none")
      bad_input(fmt::format(
          "SINKTRAP_FUZZ_IMPL={}: no mutant of that name; `sinktrap list mutants` shows them", argument));
    const int index = it == all.end() ? kUnmutated : static_cast<int>(it - all.begin());
    const auto mutant = select_mutant(index);
    if (const std::string fault = table_fault(&mutant->table()); !fault.empty())
      bad_input(fmt::format("SINKTRAP_FUZZ_IMPL={}: {}", argument, fault));
    return {mutant, argument,
            fmt::format(
                "SINKTRAP_FAULT={} ./sinktrap check --impl build/release/mutants/libsinktrap_plain_c_any.so",
                name)};
  }
  auto opened = Implementation::open(argument);
  if (const auto* error = std::get_if<std::string>(&opened)) bad_input("SINKTRAP_FUZZ_IMPL: " + *error);
  return {std::get<std::shared_ptr<const Implementation>>(opened), argument,
          fmt::format("./sinktrap check --impl '{}'", argument)};
}

bool prints(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c >= ' ' && c <= '~' && c != '\\')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Written under another name first, so that a reader never sees half a finding.
void write_finding(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool written = file >= 0;
  for (std::size_t at = 0; written && at < text.size();) {
    const ssize_t n = write(file, text.data() + at, text.size() - at);
    written = n > 0;
    at += written ? static_cast<std::size_t>(n) : 0;
  }
  written = written && fsync(file) == 0;
  if (file >= 0) close(file);
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0)
    std::fprintf(stderr, "%s: the finding cannot be written: %s\n", path.c_str(), std::strerror(errno));
}

}  // namespace

const std::vector<UnderTest>& under_test(const std::vector<std::string>& defaults) {
  static const std::vector<UnderTest> all = [&] {
    std::vector<UnderTest> list;
    const std::string_view given = variable("SINKTRAP_FUZZ_IMPL");
    if (given.empty())
      for (const std::string& d : defaults) list.push_back(open_one(d));
    int mutants = 0;
    for (std::size_t at = 0; at < given.size();) {
      const std::size_t end = std::min(given.find(';', at), given.size());
      if (end > at) list.push_back(open_one(std::string(given.substr(at, end - at))));
      if (end > at) mutants += list.back().argument.compare(0, 7, "mutant:") == 0 ? 1 : 0;
      at = end + 1;
    }
    if (mutants > 1)
      bad_input("SINKTRAP_FUZZ_IMPL: more than one mutant; only one can be selected in a process");
    return list;
  }();
  return all;
}

void executing(std::string_view input) {
  char* memory = current_memory();
  if (memory == nullptr) return;
  const std::size_t n = std::min(input.size(), kCurrentBytes - 2);
  std::memcpy(memory, input.data(), n);
  memory[n] = '\n';
  memory[n + 1] = '\0';
}

std::string finding_text(const Finding& f) {
  std::string text = fmt::format("# law: {}\n# impl: {}\n# target: {}\n# reason: {}\n", f.law,
                                 f.implementation, kTarget, escaped(f.reason));
  if (!prints(f.line)) text += "# the bytes that do not print are escaped in the line below\n# input: ";
  return text + (prints(f.line) ? f.line : escaped(f.line)) + "\n";
}

void report(const Finding& f) {
  if (!findings_folder().empty()) {
    const std::string text = finding_text(f);
    write_finding(fmt::format("{}/{}-{:016x}.case", findings_folder(), kTarget,
                              std::hash<std::string>{}(f.law + '\n' + f.line)),
                  text);
  }
  std::fprintf(stderr, "FINDING of %s: %s on %s\n  case    %s\n  reason  %s\n  repeat  %s\n", kTarget,
               f.law.c_str(), f.implementation.c_str(), escaped(f.line).c_str(), f.reason.c_str(),
               f.repeat.c_str());
  std::abort();
}

void check_refusal(std::string_view law, std::string_view why, std::string_view input) {
  const auto breaks = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (!why.empty() && std::none_of(why.begin(), why.end(), breaks)) return;
  report({std::string(law), "-",
          why.empty() ? "a refusal without a reason" : "a refusal that is not one printable line",
          std::string(input), fmt::format("{} FILE", kTarget)});
}

bool mutator_is_on() {
  static const bool on = [] {
    const std::string_view v = variable("SINKTRAP_FUZZ_MUTATOR");
    if (!v.empty() && v != "off" && v != "on")
      bad_input(fmt::format("SINKTRAP_FUZZ_MUTATOR={}: expected on or off", v));
    return v != "off";
  }();
  return on;
}

}  // namespace sinktrap::fuzz
