#include "gate/nightly/targets.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "gate/nightly/files.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;

std::variant<std::vector<Target>, std::string> read_targets(const fs::path& list, const fs::path& corpus,
                                                            const fs::path& dictionary) {
  const auto text = read_whole(list);
  if (!text)
    return fmt::format(
        "nightly: {}: no list of fuzz targets there; ./sinktrap nightly builds them, with clang "
        "(apt-get install clang-14 libclang-rt-14-dev llvm-14)",
        list.string());
  std::error_code error;
  std::vector<Target> targets;
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    Target target;
    if (!(words >> target.name) || target.name[0] == '#') continue;
    for (std::string flag; words >> flag;) {
      if (flag[0] != '-')
        return fmt::format("nightly: {}:{}: {}: expected NAME and flags that begin with -", list.string(),
                           number, flag);
      target.flags.push_back(flag);
    }
    target.program = list.parent_path() / target.name;
    if (target.name.find('/') != std::string::npos || access(target.program.c_str(), X_OK) != 0)
      return fmt::format("nightly: {}:{}: no program {}; ./sinktrap nightly builds it", list.string(), number,
                         target.program.string());
    const bool has_dictionary =
        std::any_of(target.flags.begin(), target.flags.end(),
                    [](const std::string& f) { return f.compare(0, 6, "-dict=") == 0; });
    if (!has_dictionary && fs::exists(dictionary, error))
      target.flags.push_back("-dict=" + dictionary.string());
    // The build makes a file of every seed; without it the folder of the sources, where a file may be one
    // too.
    for (const fs::path& seeds : {list.parent_path() / "seeds" / target.name, corpus / "seeds" / target.name})
      if (target.seeds.empty() && fs::is_directory(seeds, error)) target.seeds = seeds;
    targets.push_back(std::move(target));
  }
  if (targets.empty()) return fmt::format("nightly: {}: it names no target", list.string());
  return targets;
}

}  // namespace sinktrap::nightly
