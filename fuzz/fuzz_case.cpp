// Fuzz target: a case line, through the parser, the printer and every law of the registry that speaks about
// it, on the CUDA sources. A refusal by the parser is part of what is tested: it must name a place and a
// reason.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cases/case.hpp"
#include "properties/law.hpp"

namespace {

using namespace sinktrap;

[[noreturn]] void report(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// Elements of the tensors of a case, roughly: what a judgement costs. Cases above 2^15 are parsed and printed
// only, so that an execution stays in the range of a millisecond.
constexpr double kMaxElements = 1 << 15;

double elements(const LayerCase& c, std::size_t tokens) {
  const auto f = [](std::int64_t v) { return static_cast<double>(v); };
  const double weights = 3 * f(c.d.n) * f(c.d.F) * f(c.d.H);
  return weights * (1 + static_cast<double>(tokens)) +
         4 * f(c.d.S) * f(c.d.n) * f(c.d.R) * (f(c.d.F) + f(c.d.H));
}

bool affordable(const Case& c) {
  if (std::holds_alternative<LayoutCase>(c)) return true;
  if (const auto* f = std::get_if<ForwardCase>(&c)) return elements(f->layer, f->slots.size()) < kMaxElements;
  if (const auto* s = std::get_if<StateCase>(&c)) {
    std::size_t tokens = 0;
    for (const Step& step : s->steps) tokens += 4 + step.slots.size();
    return elements(s->layer, tokens) < kMaxElements;
  }
  if (const auto* p = std::get_if<PackCase>(&c))
    return elements(p->layer, static_cast<std::size_t>(p->tp)) * static_cast<double>(p->r + 1) < kMaxElements;
  return elements(std::get<ShardCase>(c).layer, 8) < kMaxElements;
}

// $SINKTRAP_FUZZ_IMPL: implementations, separated by ';', as in --impl.
const std::vector<std::shared_ptr<const Implementation>>& implementations() {
  static const auto all = [] {
    const char* given = std::getenv("SINKTRAP_FUZZ_IMPL");
    std::string names = given != nullptr && *given != 0 ? given : "simt";
    std::vector<std::shared_ptr<const Implementation>> list;
    for (std::size_t end = 0; !names.empty(); names.erase(0, end == std::string::npos ? end : end + 1)) {
      end = names.find(';');
      auto opened = Implementation::open(names.substr(0, end));
      if (const auto* error = std::get_if<std::string>(&opened)) {
        std::fprintf(stderr, "%s\n", error->c_str());
        std::exit(2);
      }
      list.push_back(std::get<std::shared_ptr<const Implementation>>(opened));
    }
    return list;
  }();
  return all;
}

// $SINKTRAP_FUZZ_FINDINGS: a folder that gets a file for the failure, whole or not at all.
void keep(const Law& law, const Implementation& implementation, const Judgement& j, const std::string& line) {
  const char* folder = std::getenv("SINKTRAP_FUZZ_FINDINGS");
  if (folder == nullptr || *folder == 0) return;
  const std::string path = std::string(folder) + "/" + std::string(law.id) + ".finding";
  const std::string beside = path + ".tmp";
  if (std::FILE* file = std::fopen(beside.c_str(), "w")) {
    std::fprintf(file, "# law: %s\n# impl: %s\n# target: fuzz_case\n# reason: %s\n%s\n",
                 std::string(law.id).c_str(), implementation.argument().c_str(), j.reason.c_str(),
                 line.c_str());
    if (std::fclose(file) == 0) std::rename(beside.c_str(), path.c_str());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_case(line);
  if (const auto* error = std::get_if<CaseError>(&parsed)) {
    if (error->column < 1 || error->column > size + 1) report("a refusal names a column outside the line");
    if (error->what.empty() || error->what.find('\n') != std::string::npos)
      report("a refusal is not one line");
    return 0;
  }
  const Case& c = std::get<Case>(parsed);
  const std::string printed = print_case(c);
  const auto again = parse_case(printed);
  if (!std::holds_alternative<Case>(again)) report("the canonical line is refused: " + printed);
  if (!(std::get<Case>(again) == c)) report("the canonical line is another case: " + printed);
  if (print_case(std::get<Case>(again)) != printed) report("printing is not stable: " + printed);
  if (!affordable(c)) return 0;
  for (const Law& law : laws()) {
    if (!law.applies(c)) continue;
    for (const auto& implementation : implementations()) {
      const Judgement j = judge_case(law, c, *implementation);
      if (!is_bad(j.status)) continue;
      keep(law, *implementation, j, printed);
      report(std::string(law.id) + ": " + j.reason + "\n  ./sinktrap check --law " + std::string(law.id) +
             " '" + printed + "'");
    }
  }
  return 0;
}
