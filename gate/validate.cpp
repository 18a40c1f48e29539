// `validate`: verdicts on layouts, from a line typed by a person or from JSON lines.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "contract/verdict.hpp"
#include "gate/commands.hpp"
#include "gate/explain.hpp"
#include "judge/child.hpp"
#include "judge/layouts.hpp"
#include "judge/status.hpp"

namespace sinktrap {
namespace {

using Json = nlohmann::ordered_json;
using Implementations = std::vector<std::shared_ptr<const Implementation>>;

// Verdicts are asked for in batches: one launch of a validation kernel judges many layouts.
constexpr std::size_t kBatch = 4096;
// For one batch; those of the reference and of the simulated kernels take less than 0.03 s.
constexpr unsigned kBatchSeconds = 60;
// Longest line of a JSON file that is read.
constexpr std::size_t kMaxLine = 1 << 20;

Json verdict_json(const Verdict& v, std::int64_t n) {
  const auto optional = [](bool there, std::int64_t value) { return there ? Json(value) : Json(nullptr); };
  const bool ok = v.code == SINKTRAP_OK;
  Json j;
  j["code"] = code_name(v.code);
  j["buffer"] = v.buffer == SINKTRAP_NONE ? Json(nullptr) : Json(buffer_name(v.buffer));
  j["axis"] = optional(v.axis != SINKTRAP_NONE, v.axis);
  j["found"] = optional(!ok, v.found);
  j["expected"] = optional(!ok, v.expected);
  j["message"] = code_message(v.code, n);
  return j;
}

// A list of int64 or an error.
bool read_extents(const Json& value, std::vector<std::int64_t>& out) {
  if (!value.is_array() || value.size() > 64) return false;
  out.clear();
  for (const Json& v : value) {
    if (v.is_number_unsigned() && v.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
      return false;
    if (!v.is_number_integer()) return false;
    out.push_back(v.get<std::int64_t>());
  }
  return true;
}

bool read_integer(const Json& object, const char* key, std::int64_t& out) {
  if (!object.contains(key)) return true;
  std::vector<std::int64_t> one;
  if (!read_extents(Json::array({object[key]}), one)) return false;
  out = one[0];
  return true;
}

// {"n": 2, "shapes": {"gate_up_lora_a": [..], ..}}; optional "H", "F", "dtype" (a name, or one for each
// buffer), "strides" (for each buffer: a list or null). Other keys are left alone.
std::string read_layout(const std::string& line, LayoutCase& c) {
  const Json j = Json::parse(line, nullptr, false);
  if (j.is_discarded() || !j.is_object()) return "expected a JSON object";
  if (!j.contains("n")) return "field n is missing";
  if (!read_integer(j, "n", c.n) || !read_integer(j, "H", c.H) || !read_integer(j, "F", c.F))
    return "n, H and F must be integers that fit int64";
  if (!j.contains("shapes") || !j["shapes"].is_object())
    return "field shapes must be an object of four lists";
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const std::string name{buffer_name(b)};
    BufferCase& buffer = c.buffers[static_cast<std::size_t>(b)];
    if (!j["shapes"].contains(name)) return fmt::format("shapes.{} is missing", name);
    if (!read_extents(j["shapes"][name], buffer.shape))
      return fmt::format("shapes.{} must be a list of integers that fit int64", name);
    if (j.contains("dtype")) {
      const Json& type = j["dtype"].is_object() && j["dtype"].contains(name) ? j["dtype"][name] : j["dtype"];
      const auto e = type.is_string() ? element_from_name(type.get<std::string>()) : std::nullopt;
      if (!e) return fmt::format("dtype of {} must be one of bf16, f16, f32, f64, i32, i64", name);
      buffer.dtype = dl_type(*e);
    }
    if (j.contains("strides") && j["strides"].is_object() && j["strides"].contains(name) &&
        !j["strides"][name].is_null()) {
      buffer.strides.emplace();
      if (!read_extents(j["strides"][name], *buffer.strides) || buffer.strides->size() != buffer.shape.size())
        return fmt::format("strides.{} must be a list of as many integers as its shape", name);
    }
  }
  return "";
}

// The process is killed when they do not come.
std::vector<Verdict> verdicts_of(const Implementation& implementation, std::span<const LayoutCase> cases,
                                 std::int32_t profile) {
  alarm(kBatchSeconds);
  std::vector<Verdict> verdicts = validate(implementation, cases, profile);
  alarm(0);
  return verdicts;
}

class JsonLines {
 public:
  JsonLines(const Implementations& implementations, std::int32_t profile, std::string name)
      : implementations_(implementations), profile_(profile), name_(std::move(name)) {}

  int run(std::istream& in) {
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      LayoutCase c;
      const std::string error = line.size() > kMaxLine ? "line too long" : read_layout(line, c);
      if (!error.empty()) {
        flush();
        return bad_input(fmt::format("{}:{}: {}", name_, number, error));
      }
      batch_.push_back(std::move(c));
      if (batch_.size() == kBatch) flush();
    }
    flush();
    return 0;
  }

 private:
  void flush() {
    std::vector<std::vector<Verdict>> verdicts;
    for (const auto& i : implementations_) verdicts.push_back(verdicts_of(*i, batch_, profile_));
    for (std::size_t k = 0; k < batch_.size(); ++k)
      for (std::size_t i = 0; i < implementations_.size(); ++i) {
        Json j = verdict_json(verdicts[i][k], batch_[k].n);
        if (implementations_.size() > 1) j["implementation"] = implementations_[i]->name();
        fmt::print("{}\n", j.dump());
      }
    std::fflush(stdout);
    batch_.clear();
  }

  const Implementations& implementations_;
  std::int32_t profile_;
  std::string name_;
  std::vector<LayoutCase> batch_;
};

int validate_line(const Implementations& implementations, std::int32_t profile, std::string line) {
  if (line.compare(0, 6, "layout") != 0) line = "layout " + line;
  auto parsed = parse_case(line);
  if (const auto* error = std::get_if<CaseError>(&parsed))
    return bad_input(fmt::format("layout, column {}: {}", error->column, error->what));
  const auto* c = std::get_if<LayoutCase>(&std::get<Case>(parsed));
  if (c == nullptr) return bad_input("validate takes a layout case");
  bool valid = true;
  for (const auto& i : implementations) {
    const Verdict v = verdicts_of(*i, std::span(c, 1), profile)[0];
    if (implementations.size() > 1) fmt::print("{}: ", i->name());
    fmt::print("{}", explain(*c, profile, v));
    valid = valid && v.code == SINKTRAP_OK;
  }
  return valid ? 0 : 1;
}

int judge_all(const ValidateArguments& a, const Implementations& implementations, std::int32_t profile) {
  try {
    if (a.jsonl.empty()) return validate_line(implementations, profile, a.layout);
    JsonLines lines(implementations, profile, a.jsonl == "-" ? "standard input" : a.jsonl);
    if (a.jsonl == "-") return lines.run(std::cin);
    std::ifstream file(a.jsonl);
    if (!file) return bad_input(fmt::format("--jsonl {}: cannot be read", a.jsonl));
    return lines.run(file);
  } catch (const Stop& s) {
    fmt::print(stderr, "sinktrap: {}\n", s.judgement.reason);
    return 1;
  }
}

// Runs in a child, so that an implementation that crashes, hangs or ends the process is reported and not
// joined.
template <class Command>
int guarded(Command&& command) {
  std::fflush(nullptr);
  // Whether the command has returned: an implementation may end the process with a code that looks like one.
  void* page = mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return bad_input("cannot map a shared page");
  const auto* returned = static_cast<volatile bool*>(page);
  const pid_t child = fork();
  if (child < 0) return bad_input("cannot start a process");
  if (child == 0) {
    const int code = command();
    std::fflush(nullptr);
    *static_cast<volatile bool*>(page) = true;
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && *returned) return WEXITSTATUS(status);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    fmt::print(stderr, "sinktrap: TIMED_OUT: no verdict within {} s in validate\n", kBatchSeconds);
  else
    fmt::print(stderr, "sinktrap: CRASHED: the implementation {} in validate\n", end_text(status));
  return 1;
}

}  // namespace

int validate_command(const ValidateArguments& a) {
  if (a.profile != "strict" && a.profile != "sglang")
    return bad_input(fmt::format("--profile {}: expected strict or sglang", a.profile));
  const std::int32_t profile = a.profile == "strict" ? SINKTRAP_PROFILE_STRICT : SINKTRAP_PROFILE_SGLANG;
  if (a.layout.empty() == a.jsonl.empty())
    return bad_input("validate: expected a LAYOUT or --jsonl FILE, one of them");
  Implementations implementations;
  for (const std::string& name :
       a.implementations.empty() ? std::vector<std::string>{"reference"} : a.implementations) {
    auto opened = Implementation::open(name);
    if (const auto* error = std::get_if<std::string>(&opened)) return bad_input(*error);
    implementations.push_back(std::get<std::shared_ptr<const Implementation>>(opened));
  }
  return guarded([&] { return judge_all(a, implementations, profile); });
}

}  // namespace sinktrap
