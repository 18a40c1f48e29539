// The fuzz targets that the build has made, and what belongs to each.
#pragma once
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace sinktrap::nightly {

struct Target {
  std::string name;
  std::filesystem::path program;
  std::vector<std::string>
      flags;                    // limits: -max_len=, -timeout=, -rss_limit_mb=, and -dict= where there is one
  std::filesystem::path seeds;  // folder of its seeds; empty: none
};

// `list` is written by the build, a line for each target: its name and its flags; the programs lie beside it.
// Seeds are in the folder seeds/NAME there, else in `corpus`/seeds/NAME. The error is one line: what is
// missing, and what to do.
std::variant<std::vector<Target>, std::string> read_targets(const std::filesystem::path& list,
                                                            const std::filesystem::path& corpus,
                                                            const std::filesystem::path& dictionary);

}  // namespace sinktrap::nightly
