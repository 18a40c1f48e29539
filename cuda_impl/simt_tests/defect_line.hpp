// Where a planted defect stands: what a report must name.
#pragma once
#include <fstream>
#include <string>

#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {

// "cuda_impl/simt_tests/race_defects.cu:14"; empty when the file has no such marker.
inline std::string place_of(const Defect& defect) {
  const std::string name = std::string("cuda_impl/simt_tests/") + defect.file;
  std::ifstream source(std::string(SINKTRAP_SOURCE_DIR) + "/" + name);
  const std::string marker = std::string("// defect: ") + defect.name;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number)
    if (line.size() >= marker.size() && line.compare(line.size() - marker.size(), marker.size(), marker) == 0)
      return name + ":" + std::to_string(number);
  return {};
}

}  // namespace sinktrap::simt
