// A plain main for a fuzz target: every argument is a file or a folder of files; what is in one is said in
// fuzz/files.hpp. So gcc and ctest run the corpus without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "fuzz/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

// The number of inputs; negative when a file cannot be read.
int replay(const std::string& path) {
  const auto inputs = sinktrap::fuzz::read_inputs(path);
  if (const auto* why = std::get_if<std::string>(&inputs)) {
    std::fprintf(stderr, "%s\n", why->c_str());
    return -1;
  }
  const auto& list = std::get<std::vector<sinktrap::fuzz::Input>>(inputs);
  for (const auto& input : list)
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.bytes.data()), input.bytes.size());
  return static_cast<int>(list.size());
}

}  // namespace

int main(int argc, char** argv) {
  int total = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::string> files;
    std::error_code error;
    if (fs::is_directory(argv[i], error)) {
      for (const auto& file : fs::recursive_directory_iterator(argv[i]))
        if (file.is_regular_file()) files.push_back(file.path().string());
    } else {
      files.emplace_back(argv[i]);
    }
    for (const std::string& file : files) {
      const int inputs = replay(file);
      if (inputs < 0) return 2;
      total += inputs;
    }
  }
  std::printf("%d inputs\n", total);
  return total > 0 ? 0 : 2;
}
