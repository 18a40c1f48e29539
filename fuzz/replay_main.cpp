// A plain main for a fuzz target: every argument is a file; a .cases file is taken line by line (comments are
// fed too: they are inputs like any other), any other file as one input. So gcc and ctest run the corpus
// without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
      return 2;
    }
    if (path.size() > 6 && path.compare(path.size() - 6, 6, ".cases") == 0) {
      for (std::string line; std::getline(file, line); ++inputs) feed(line);
    } else {
      std::ostringstream text;
      text << file.rdbuf();
      feed(text.str());
      ++inputs;
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 2;
}
