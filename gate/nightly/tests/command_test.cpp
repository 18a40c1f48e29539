// Whole nights of ten seconds, with targets that stand in for libFuzzer's: what is found is found whatever
// ends the night.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "gate/nightly/files.hpp"
#include "gate/tests/program.hpp"
#include "scratch.hpp"

namespace sinktrap::nightly {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using sinktrap::testing::Ended;
using sinktrap::testing::one_line;
using sinktrap::testing::plain_c;
using sinktrap::testing::program;

// Targets, a build folder with a nightly test, and the folder of the nights.
class Nights : public ::testing::Test {
 protected:
  void SetUp() override {
    make_folder(pids());
    make_folder(path("build"));
    write_whole(path("build/CTestTestfile.cmake"),
                "add_test(passes \"/bin/true\")\nset_tests_properties(passes PROPERTIES LABELS nightly)\n");
    setenv("FAKE_PIDS", pids().c_str(), 1);
    unsetenv("FAKE_NOTHING");
  }
  void TearDown() override {
    unsetenv("FAKE_PIDS");
    unsetenv("FAKE_NOTHING");
  }
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }
  std::string pids() const { return path("pids"); }
  std::string out() const { return path("nights"); }

  void targets(const std::vector<std::string>& names) const {
    std::string list;
    make_folder(path("bin"));
    for (const std::string& name : names) {
      fs::copy_file(SINKTRAP_FAKE_TARGET, path("bin/" + name), fs::copy_options::overwrite_existing);
      list += name + " -max_len=64\n";
    }
    write_whole(path("bin/targets.txt"), list);
  }
  std::string arguments(const std::string& more = "") const {
    return fmt::format("nightly --seconds 10 --jobs 2 --out '{}' --targets '{}' --build '{}' {}", out(),
                       path("bin/targets.txt"), path("build"), more);
  }
  Json report() const { return Json::parse(read_whole(out() + "/report.json").value_or(""), nullptr, false); }

  // The program in the background, as its own process and no shell's.
  pid_t start(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        SINKTRAP_PROGRAM,        "nightly", "--seconds",  "60", "--jobs", "2", "--out", out(), "--targets",
        path("bin/targets.txt"), "--build", path("build")};
    words.insert(words.end(), more.begin(), more.end());
    const pid_t pid = fork();
    if (pid == 0) {
      (void)!freopen(path("output").c_str(), "w", stdout);
      (void)!freopen("/dev/null", "w", stderr);
      std::vector<char*> list;
      list.reserve(words.size() + 1);
      for (std::string& w : words) list.push_back(w.data());
      list.push_back(nullptr);
      execv(list[0], list.data());
      _exit(127);
    }
    return pid;
  }
  static bool within(double seconds, const std::function<bool()>& condition) {
    const auto start = std::chrono::steady_clock::now();
    while (!condition()) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds)
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  std::size_t findings() const {
    std::size_t count = 0;
    std::error_code error;
    for (const char* folder : {"/findings", "/findings/raw"})
      for (const auto& entry : fs::directory_iterator(out() + folder, error))
        count += entry.path().extension() == ".finding";
    return count;
  }
  bool all_targets_gone() const {
    for (const auto& entry : fs::directory_iterator(pids()))
      if (kill(static_cast<pid_t>(std::stol(entry.path().filename().string())), 0) == 0) return false;
    return true;
  }

  Scratch scratch_;
};

TEST_F(Nights, AQuietNightFindsNothingAndEndsInTime) {
  targets({"fake_quiet"});
  const auto start = std::chrono::steady_clock::now();
  const Ended e = program(arguments());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(e.code, 0) << e.out << e.err;
  EXPECT_GT(seconds, 4);  // the share of fuzzing was used
  const Json r = report();
  ASSERT_TRUE(r.is_object());
  EXPECT_GT(r["targets"][0]["executions"].get<int>(), 100);
  EXPECT_GT(r["targets"][0]["curve"].size(), 3u);
  EXPECT_EQ(r["targets"][0]["merge"], "");
  EXPECT_GT(r["targets"][0]["corpus_after"].get<int>(), 0);
  EXPECT_EQ(r["tests"]["passed"], 1);
  EXPECT_TRUE(r["before"].is_null());
  EXPECT_FALSE(fs::exists(out() + "/work"));
  // The next one is compared with it.
  EXPECT_EQ(program(arguments()).code, 0);
  EXPECT_EQ(report()["night"], 2);
  EXPECT_FALSE(report()["before"].is_null());
}

TEST_F(Nights, ALawThatFailsIsOneSmallCaseThatRepeats) {
  targets({"fake_law", "fake_quiet"});
  const Ended e = program(arguments("--impl '" + plain_c("up_half_at_r") + "'"));
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  const Json r = report();
  ASSERT_TRUE(r.is_object());
  ASSERT_EQ(r["findings"].size(), 1u) << r["findings"].dump(1);
  const Json& f = r["findings"][0];
  EXPECT_EQ(f["law"], "load-leaves-no-trace");
  EXPECT_EQ(f["suspect"], "up_half_at_r");
  EXPECT_LT(f["case"].get<std::string>().size(), f["found_as"].get<std::string>().size());
  EXPECT_NE(r["targets"][0]["given_up"], "") << "the same finding again and again";
  // "./sinktrap check ..." in a shell: the program stands for the script.
  const std::string repeat = f["repeat"];
  ASSERT_EQ(repeat.find("./sinktrap "), 0u);
  EXPECT_EQ(program(repeat.substr(11)).code, 1) << repeat;
  // The next night judges it again, and it is no news.
  const Ended again = program(arguments("--impl '" + plain_c("up_half_at_r") + "'"));
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(report()["findings_new"], 0);
  EXPECT_EQ(report()["findings_open"], 1);
}

TEST_F(Nights, ACrashIsBytesAndACommand) {
  targets({"fake_crash"});
  const Ended e = program(arguments());
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  const Json r = report();
  ASSERT_TRUE(r.is_object());
  ASSERT_EQ(r["findings"].size(), 1u) << r["findings"].dump(1);
  const Json& f = r["findings"][0];
  EXPECT_EQ(f["kind"], "crash");
  EXPECT_EQ(f["place"], "libFuzzer: deadly signal in sinktrap::walk(char const*)");
  EXPECT_EQ(f["reason"], "the parser walked off the end");
  const int status = std::system((f["repeat"].get<std::string>() + " 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 77) << f["repeat"];
}

TEST_F(Nights, AProcessThatIsKilledLeavesItsInput) {
  targets({"fake_killed"});
  EXPECT_EQ(program(arguments()).code, 1);
  const Json r = report();
  ASSERT_EQ(r["findings"].size(), 1u) << r.dump(1);
  EXPECT_EQ(r["findings"][0]["kind"], "crash");
  const std::string repeat = r["findings"][0]["repeat"];
  EXPECT_EQ(WEXITSTATUS(std::system((repeat + " 2>/dev/null").c_str())), 77) << repeat;
}

TEST_F(Nights, WhatWasPutRightIsSaidOnceAndNoLongerCounts) {
  targets({"fake_crash"});
  ASSERT_EQ(program(arguments()).code, 1);
  for (const auto& entry : fs::directory_iterator(out() + "/findings"))
    if (entry.path().extension() == ".input") write_whole(entry.path(), "good bytes");
  setenv("FAKE_NOTHING", "1", 1);
  EXPECT_EQ(program(arguments()).code, 0);
  EXPECT_EQ(report()["findings_fixed"], 1);
  EXPECT_EQ(program(arguments()).code, 0);
  EXPECT_EQ(report()["findings"].size(), 0u);
}

TEST_F(Nights, ATargetThatCannotStartIsLeftAndSaid) {
  targets({"fake_broken", "fake_quiet"});
  EXPECT_EQ(program(arguments()).code, 0);
  const std::string why = report()["targets"][0]["given_up"];
  EXPECT_NE(why.find("cannot start"), std::string::npos) << why;
  EXPECT_GT(report()["targets"][1]["executions"].get<int>(), 100);
}

TEST_F(Nights, KilledHalfWayTheNextOneReportsWhatWasFound) {
  targets({"fake_law", "fake_crash", "fake_quiet"});
  const std::string faulty = plain_c("up_half_at_r");
  const pid_t pid = start({"--impl", faulty});
  ASSERT_TRUE(within(50, [&] { return findings() >= 2; }));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(fs::exists(out() + "/report.json"));
  EXPECT_TRUE(within(20, [&] { return all_targets_gone(); })) << "a target outlived the night";
  setenv("FAKE_NOTHING", "1", 1);
  const Ended e = program(arguments("--impl '" + faulty + "'"));
  EXPECT_EQ(e.code, 1) << e.out << e.err;
  const Json r = report();
  ASSERT_TRUE(r.is_object());
  EXPECT_FALSE(r["resumed"].is_null());
  // An artifact that the kill cut off is a finding of its own: nothing is thrown away.
  int laws = 0, crashes = 0;
  for (const Json& f : r["findings"]) {
    laws += f["law"] == "load-leaves-no-trace";
    crashes += f["place"] == "libFuzzer: deadly signal in sinktrap::walk(char const*)";
    EXPECT_EQ(f["standing"], "new");
  }
  EXPECT_EQ(laws, 1) << r["findings"].dump(1);
  EXPECT_EQ(crashes, 1) << r["findings"].dump(1);
}

TEST_F(Nights, EndedBySignalsItReportsAtOnce) {
  targets({"fake_quiet"});
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t pid = start({});
    ASSERT_TRUE(within(50, [&] { return !fs::is_empty(pids()); }));
    kill(pid, signal);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_NE(report()["verdict"].get<std::string>().find("INTERRUPTED"), std::string::npos);
    EXPECT_TRUE(within(20, [&] { return all_targets_gone(); }));
    for (const auto& entry : fs::directory_iterator(pids())) fs::remove(entry.path());
  }
}

TEST_F(Nights, ASecondNightInTheSameFolderIsRefused) {
  targets({"fake_quiet"});
  const pid_t pid = start({});
  ASSERT_TRUE(within(50, [&] { return !fs::is_empty(pids()); }));
  const Ended e = program(arguments());
  EXPECT_EQ(e.code, 2);
  EXPECT_TRUE(one_line(e.err)) << e.err;
  EXPECT_NE(e.err.find("another night"), std::string::npos) << e.err;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(Nights, DamagedFilesCostNoNight) {
  targets({"fake_quiet"});
  make_folder(out() + "/findings/raw");
  write_whole(out() + "/state", "sinktrap nightly state 1\nnight 4 -");
  write_whole(out() + "/report.json", "{\"program\":");
  write_whole(out() + "/findings/x.finding", "# law: half a fin");
  EXPECT_EQ(program(arguments()).code, 0);
  EXPECT_EQ(report()["problems"].size(), 2u) << report()["problems"].dump(1);
}

TEST_F(Nights, BadInputIsOneLine) {
  targets({"fake_quiet"});
  const auto refused = [](const std::string& words, const std::string& must_say) {
    const Ended e = program(words);
    EXPECT_EQ(e.code, 2) << words << e.err;
    EXPECT_TRUE(one_line(e.err)) << words << "\n" << e.err;
    EXPECT_NE(e.err.find(must_say), std::string::npos) << words << "\n" << e.err;
    EXPECT_EQ(e.out, "") << words;
  };
  refused("nightly --seconds 3", "at least 10");
  refused("nightly --seconds many", "seconds");
  refused("nightly --seconds nan", "10");
  refused("nightly --hours 1 --seconds 60", "one of them");
  refused("nightly --jobs 0", "jobs");
  refused("nightly --impl ./nothing.so --seconds 60", "no such file");
  refused("nightly --impl 'a;b' --seconds 60", "';'");
  refused("nightly --seconds 60 --targets /dev/null", "no list");
  refused("nightly --seconds 60 --targets ./nowhere.txt", "clang-14");
  refused("nightly --seconds 60 --targets '" + path("bin/targets.txt") + "' --out /proc/nights",
          "/proc/nights");
}

TEST_F(Nights, APlanCanBeLookedAt) {
  targets({"fake_quiet"});
  const Ended e = program(arguments("--dry-run"));
  EXPECT_EQ(e.code, 0);
  EXPECT_NE(e.out.find("fuzzing"), std::string::npos) << e.out;
  EXPECT_FALSE(fs::exists(out()));
}

}  // namespace
}  // namespace sinktrap::nightly
