// Stands in for a libFuzzer target, so that the command can be tested without clang: same flags, same log,
// same files. What it does depends on its name:
//   fake_quiet   finds nothing
//   fake_law     finds that a law fails, after the first input
//   fake_crash   leaves an artifact, after the first input
//   fake_killed  is killed without a word, after the first input
//   fake_broken  ends before its first input
// With a file as argument it ends with code 77 when the file begins with "bad". $FAKE_PIDS is a folder where
// every process writes its number; with $FAKE_NOTHING no target finds anything.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr const char* kLine =
    "pack n=2 H=7 F=5 R=3 S=1 layout=shared type=f16 ranks=3 slot=0 r=2 factors=stacked scaling=1e-07 "
    "fill=dense seed=3";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Executing a given file leaves no artifact: as in libFuzzer, the file is one.
int crash_on_file() {
  std::fprintf(stderr,
               "the parser walked off the end\n==1== ERROR: libFuzzer: deadly signal\n"
               "    #6 0x5f1 in sinktrap::walk(char const*) /s/walk.cpp:12:3\n"
               "SUMMARY: libFuzzer: deadly signal\n");
  return 77;
}

int crash(const std::string& prefix) {
  const int code = crash_on_file();
  const std::string path = prefix + "crash-00112233";
  std::ofstream(path) << "bad bytes";
  std::fprintf(stderr, "artifact_prefix='%s'; Test unit written to %s\n", prefix.c_str(), path.c_str());
  return code;
}

int law(const std::string& prefix) {
  const std::string folder = from_environment("SINKTRAP_FUZZ_FINDINGS");
  std::string implementation = from_environment("SINKTRAP_FUZZ_IMPL");
  if (implementation.empty()) implementation = "simt";
  const fs::path path = fs::path(folder) / "fake_law-0123.case";
  std::ofstream(path.string() + ".tmp") << "# law: load-leaves-no-trace\n# impl: " << implementation
                                        << "\n# target: fake_law\n# reason: it differs\n"
                                        << kLine << "\n";
  fs::rename(path.string() + ".tmp", path);
  return crash(prefix);
}

int merge(const std::vector<std::string>& folders) {
  for (std::size_t i = 1; i < folders.size(); ++i)
    for (const auto& entry : fs::directory_iterator(folders[i]))
      fs::copy_file(entry.path(), fs::path(folders[0]) / entry.path().filename(),
                    fs::copy_options::skip_existing);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = fs::path(argv[0]).filename();
  if (const std::string pids = from_environment("FAKE_PIDS"); !pids.empty())
    std::ofstream(fs::path(pids) / std::to_string(getpid())) << name;
  std::string prefix;
  bool merging = false;
  double seconds = 1e9;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.compare(0, 17, "-artifact_prefix=") == 0) prefix = a.substr(17);
    if (a.compare(0, 16, "-max_total_time=") == 0) seconds = std::stod(a.substr(16));
    merging = merging || a == "-merge=1";
    if (a[0] != '-') paths.push_back(a);
  }
  if (merging) return merge(paths);
  if (name == "fake_broken") {
    std::fprintf(stderr, "fake: this target cannot start\n");
    return 3;
  }
  if (paths.size() == 1 && fs::is_regular_file(paths[0])) {
    std::string word;
    std::ifstream(paths[0]) >> word;
    return word == "bad" ? crash_on_file() : 0;
  }
  if (paths.empty()) return 2;
  std::fprintf(stderr, "INFO: Seed: 1\n#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb\n");
  if (from_environment("FAKE_NOTHING").empty()) {
    if (name == "fake_law") return law(prefix);
    if (name == "fake_crash") return crash(prefix);
    if (name == "fake_killed") {
      std::ofstream(fs::path(from_environment("SINKTRAP_FUZZ_FINDINGS")) / "fake_killed.current")
          << "bad end\n";
      std::raise(SIGKILL);
    }
  }
  const auto start = std::chrono::steady_clock::now();
  for (int k = 1; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds;
       ++k) {
    std::ofstream(fs::path(paths[0]) / ("unit" + std::to_string(k % 50))) << k;
    std::fprintf(stderr,
                 "#%d\tNEW    cov: %d ft: %d corp: %d/9b lim: 9 exec/s: 500 rss: 30Mb L: 1/1 MS: 1 x-\n",
                 10 * k, 3 + k, 4 + k, k);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}
