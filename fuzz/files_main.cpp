// fuzz_files dictionary: writes fuzz/sinktrap.dict to stdout.
// fuzz_files seeds FROM TO: the inputs below FROM/<target>/, one file for each, in TO/<target>/, which is
// made anew.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fuzz/files.hpp"
#include "fuzz/protocol.hpp"

namespace sinktrap::fuzz {
const char* const kTarget = "fuzz_files";
}

namespace {

namespace fs = std::filesystem;
using namespace sinktrap::fuzz;

int fail(const std::string& what) {
  std::fprintf(stderr, "fuzz_files: %s\n", what.c_str());
  return 2;
}

int seeds(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::is_directory(from, error))
    return fail(from.string() + ": no folder; expected one with a folder for each target");
  for (const auto& target : fs::directory_iterator(from)) {
    if (!target.is_directory()) continue;
    const fs::path folder = to / target.path().filename();
    fs::remove_all(folder, error);
    fs::create_directories(folder);
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(target)) files.push_back(file.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const auto inputs = read_inputs(file.string());
      if (const auto* why = std::get_if<std::string>(&inputs)) return fail(*why);
      int number = 0;
      for (const Input& input : std::get<std::vector<Input>>(inputs)) {
        std::ofstream out(folder / (file.stem().string() + "-" + std::to_string(++number)), std::ios::binary);
        out << input.bytes;
        if (!out.flush()) return fail(folder.string() + ": cannot be written");
      }
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "dictionary" && argc == 2) {
    std::fputs(dictionary_text().c_str(), stdout);
    return 0;
  }
  if (command == "seeds" && argc == 4) return seeds(argv[2], argv[3]);
  return fail("expected `dictionary`, or `seeds FROM TO`");
}
