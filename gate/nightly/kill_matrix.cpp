// The kill matrix of `sinktrap mutants`, in batches that fit into a budget.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gate/nightly/checks.hpp"
#include "gate/nightly/files.hpp"
#include "mutants/kernel_mutants.hpp"

namespace sinktrap::nightly {
namespace {

// A batch costs the time of the unmutated code on its 300 cases, 0.3 s, beside about half a second for each
// mutant (most of it shrinking): smaller batches waste the budget, larger ones more of it when it ends.
constexpr std::size_t kBatch = 8;

// True when the file could be understood.
bool add_batch(const std::string& text, MatrixResult& result) {
  const auto report = nlohmann::json::parse(text, nullptr, false);
  if (!report.is_object() || !report.contains("mutants")) return false;
  for (const auto& m : report["mutants"]) {
    const std::string name = m.value("mutant", ""), outcome = m.value("outcome", "");
    result.killed += outcome == "killed";
    result.survived += outcome == "SURVIVED";
    result.equivalent += outcome == "equivalent";
    if (outcome == "SURVIVED") result.survivors.push_back(name);
    if (outcome == "WRONGLY REFUSED") result.survivors.push_back(name + " (wrongly refused)");
  }
  return true;
}

}  // namespace

MatrixResult run_matrix(const CheckContext& c, const std::string& program, double seconds, int jobs,
                        const std::string& folder, std::uint64_t seed, std::size_t from) {
  const auto start = Clock::now();
  const auto left = [&] { return seconds - std::chrono::duration<double>(Clock::now() - start).count(); };
  MatrixResult result;
  std::vector<std::string> names;
  // The large ones have a test of their own under the label nightly.
  for (const Mutant& m : mutants())
    if (!m.large()) names.emplace_back(m.name);
  for (const Mutant& m : kernel_mutants()) names.emplace_back(m.name);
  std::rotate(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(from % names.size()), names.end());
  result.all = static_cast<std::int64_t>(names.size());
  const std::string file = folder + "/matrix.json";
  double longest = 0;
  std::size_t done = 0;
  while (done < names.size() && caught_signal() == 0) {
    // A batch that would be stopped is not begun.
    if (left() <= std::max(0.5, longest)) break;
    const std::size_t end = std::min(names.size(), done + kBatch);
    Command command;
    command.arguments = {
        program, "mutants", "--seed", std::to_string(seed), "--jobs", std::to_string(jobs), "--out",
        folder,  "--json",  file};
    command.arguments.insert(command.arguments.end(), names.begin() + static_cast<std::ptrdiff_t>(done),
                             names.begin() + static_cast<std::ptrdiff_t>(end));
    const auto batch_start = Clock::now();
    std::error_code error;
    std::filesystem::remove(file, error);
    std::string last;
    c.tick();
    const auto code = run_within(c.guard, command, left(), [&](std::string_view line) { last = line; });
    if (!code) break;
    if (!add_batch(read_whole(file).value_or(""), result)) {
      result.problem = fmt::format("sinktrap mutants ended with code {}: {}", *code, last);
      break;
    }
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - batch_start).count());
    done = end;
  }
  result.not_run = static_cast<std::int64_t>(names.size() - done);
  return result;
}

}  // namespace sinktrap::nightly
