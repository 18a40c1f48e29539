// The parts of the fuzz targets that are not an execution: mutator, dictionary, seeds, findings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fuzz/files.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/protocol.hpp"
#include "fuzz/table_line.hpp"
#include "fuzz/targets.hpp"
#include "judge/safetensors.hpp"
#include "properties/generators.hpp"

namespace sinktrap::fuzz {

const char* const kTarget = "fuzz_test";

namespace {

namespace fs = std::filesystem;

const char* const kCaseTargets[] = {"fuzz_layout", "fuzz_forward", "fuzz_state", "fuzz_pack"};

std::vector<Input> inputs_of(const std::string& path) {
  auto inputs = read_inputs(path);
  const auto* why = std::get_if<std::string>(&inputs);
  EXPECT_EQ(why, nullptr) << *why;
  return why != nullptr ? std::vector<Input>{} : std::get<std::vector<Input>>(std::move(inputs));
}

std::vector<Input> seeds_of(const std::string& target) {
  std::vector<Input> all;
  for (const auto& file : fs::directory_iterator(SINKTRAP_SOURCE_DIR "/corpus/seeds/" + target))
    for (Input& input : inputs_of(file.path().string())) all.push_back(std::move(input));
  return all;
}

TEST(Mutator, every_changed_line_is_a_case_within_the_sizes) {
  for (const char* name : kCaseTargets) {
    const CaseTarget& target = *find_case_target(name);
    Random random(1);
    std::set<std::string> met;
    for (const Input& seed : seeds_of(name)) {
      std::string line = seed.bytes;
      for (int i = 0; i < 500; ++i) {
        line = changed_line(line, random, target.sizes, target.kinds);
        const auto parsed = parse_case(line);
        const auto* error = std::get_if<CaseError>(&parsed);
        ASSERT_EQ(error, nullptr) << line << ": " << error->what;
        EXPECT_EQ(print_case(std::get<Case>(parsed)), line);
        EXPECT_TRUE(within(std::get<Case>(parsed), target.sizes)) << line;
        met.insert(line);
      }
    }
    // A walk that turns back on itself tests nothing new.
    EXPECT_GT(met.size(), seeds_of(name).size() * 250) << name;
  }
}

// What a walk from the smallest case has to reach: every word of the language that a target's cases can have.
TEST(Mutator, walks_reach_every_word_of_their_kinds) {
  const std::pair<const char*, const char*> expected[] = {
      {"fuzz_layout",
       "profile=sglang|profile=strict|/type=f16|/strides=|/device=|/at=|/offset=|scalar| H=| F="},
      {"fuzz_forward",
       "shared|per_expert|interleaved|contiguous|type=f16|type=f32|gammas=f32|fill=lattice|fill=dense|fill="
       "zero|"
       "fill=subnormal|fill=huge|fill=sweep|put=nan@|put=inf@|put=-inf@|put=huge@|schedule=|tp=2| T=0 "},
      {"fuzz_state",
       "bind:|rebind_other:|rebind_invalid:|rebind_strided:|rebind_same:|write:|load:|unload:|update:all|"
       "update:0|"
       "forward:"},
      {"fuzz_pack", "pack|shard|stacked|separate|per_expert|tp_rank=1|scaling=0.3"}};
  for (const auto& [name, words] : expected) {
    const CaseTarget& target = *find_case_target(name);
    Random random(2);
    std::string line, all;
    for (int i = 0; i < 4000; ++i) {
      if (i % 40 == 0) line.clear();  // not a case: starts anew
      line = changed_line(line, random, target.sizes, target.kinds);
      all += line + '\n';
    }
    std::stringstream list(words);
    for (std::string word; std::getline(list, word, '|');)
      EXPECT_NE(all.find(word), std::string::npos) << name << word;
  }
}

TEST(Mutator, crossings_are_cases_and_mix_both) {
  for (const char* name : kCaseTargets) {
    const CaseTarget& target = *find_case_target(name);
    const auto seeds = seeds_of(name);
    Random random(3);
    int crossed = 0, news = 0;
    for (const Input& a : seeds)
      for (const Input& b : seeds)
        for (int i = 0; i < 20; ++i) {
          const auto line = crossed_line(a.bytes, b.bytes, random, target.sizes);
          if (!line) continue;
          ++crossed;
          ASSERT_TRUE(std::holds_alternative<Case>(parse_case(*line))) << *line;
          news += *line != a.bytes && *line != b.bytes ? 1 : 0;
        }
    for (const Input& a : seeds)
      EXPECT_FALSE(crossed_line(a.bytes, a.bytes, random, target.sizes)) << a.bytes;
    EXPECT_GT(crossed, 100) << name;
    EXPECT_GT(news, crossed / 2) << name;
  }
}

// Bases are kept by a hash of their lines: thousands push each other out, and every line stays what it is.
TEST(Mutator, bases_that_push_each_other_out_keep_their_cases) {
  const CaseTarget& target = *find_case_target("fuzz_pack");
  Random random(5);
  const auto line = [](std::uint32_t seed) {
    return fmt::format("shard n=2 H=4 F=4 R=2 S=2 tp=2 fill=dense seed={}", seed);
  };
  for (std::uint32_t round = 0; round < 20000; ++round) {
    // Every field of a crossing comes from one of the two, so its seed does.
    const std::uint32_t a = random.below(10000), b = random.below(10000);
    const auto crossed = crossed_line(line(a), line(b), random, target.sizes);
    if (!crossed) continue;
    const Case c = std::get<Case>(parse_case(*crossed));
    const std::uint64_t seed = std::get<ShardCase>(c).layer.seed;
    ASSERT_TRUE(seed == a || seed == b) << *crossed << " of " << a << " and " << b;
  }
}

// Without new_line a third of them had been made before.
TEST(Mutator, lines_are_new) {
  const CaseTarget& target = *find_case_target("fuzz_forward");
  const auto seeds = seeds_of("fuzz_forward");
  Random random(6);
  std::set<std::string> lines;
  constexpr std::size_t kMade = 20000;
  for (std::size_t i = 0; i < kMade; ++i) {
    const auto any = [&] { return seeds[random.below(static_cast<std::uint32_t>(seeds.size()))].bytes; };
    auto line = crossed_line(any(), any(), random, target.sizes);
    if (!line) line = changed_line(any(), random, target.sizes, target.kinds);
    lines.insert(new_line(std::move(*line), random, target.sizes, target.kinds));
  }
  EXPECT_GT(lines.size(), kMade * 9 / 10);
}

TEST(Mutator, fields_changed_as_text_are_refused_and_accepted) {
  Random random(4);
  int refused = 0, accepted = 0;
  for (const Input& seed : seeds_of("fuzz_case_text"))
    for (int i = 0; i < 500; ++i)
      ++(std::holds_alternative<Case>(parse_case(changed_fields(seed.bytes, random))) ? accepted : refused);
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 500);
}

TEST(Dictionary, file_is_what_the_words_give) {
  std::ifstream file(SINKTRAP_SOURCE_DIR "/fuzz/sinktrap.dict");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), dictionary_text()) << "write it anew: fuzz_files dictionary > fuzz/sinktrap.dict";
}

// The other way round: whatever letters a printed case has are words of the dictionary.
TEST(Dictionary, holds_every_word_that_cases_print) {
  std::ifstream file(SINKTRAP_SOURCE_DIR "/fuzz/sinktrap.dict");
  std::set<std::string> known;
  const auto collect = [](const std::string& text, std::set<std::string>& words) {
    std::string word;
    for (const char c : text + ' ')
      if (std::isalpha(static_cast<unsigned char>(c)) ||
          (!word.empty() && (std::isalnum(static_cast<unsigned char>(c)) || c == '_')))
        word += c;
      else if (!word.empty())
        words.insert(std::exchange(word, ""));
  };
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] == '"') collect(line, known);
  std::set<std::string> used;
  for (const Law& law : laws())
    for (std::uint64_t seed = 0; seed < 60; ++seed)
      collect(print_case(generate_case(law.generator, seed, 30)), used);
  for (const char* name : {"fuzz_layout", "fuzz_case_text"})
    for (const Input& seed : seeds_of(name)) collect(seed.bytes, used);
  ASSERT_GT(used.size(), 60u);
  for (const std::string& word : used) {
    if (word.find_first_not_of("0123456789xe") == std::string::npos)
      continue;  // extents: 3x1x6x8 gives x1x6x8
    EXPECT_TRUE(known.count(word)) << word;
  }
}

TEST(Seeds, have_reasons_and_are_judged) {
  for (const char* name : kCaseTargets) {
    const CaseTarget& target = *find_case_target(name);
    const auto seeds = seeds_of(name);
    EXPECT_GE(seeds.size(), 6u) << name;
    for (const Input& seed : seeds) {
      const auto parsed = parse_case(seed.bytes);
      ASSERT_TRUE(std::holds_alternative<Case>(parsed)) << seed.origin;
      EXPECT_TRUE(within(std::get<Case>(parsed), target.sizes)) << seed.origin;
      EXPECT_EQ(print_case(std::get<Case>(parsed)), seed.bytes) << seed.origin;
    }
  }
  for (const Input& seed : seeds_of("fuzz_plugin"))
    EXPECT_TRUE(std::holds_alternative<TableLine>(parse_table(seed.bytes))) << seed.origin;
  int read = 0;
  for (const Input& seed : seeds_of("fuzz_safetensors"))
    read += std::holds_alternative<SafetensorsFile>(
        parse_safetensors(std::as_bytes(std::span(seed.bytes.data(), seed.bytes.size()))));
  EXPECT_EQ(read, 5);
  for (const auto& folder : fs::directory_iterator(SINKTRAP_SOURCE_DIR "/corpus/seeds")) {
    bool reasoned = false;
    for (const Input& seed : seeds_of(folder.path().filename())) reasoned = reasoned || !seed.reason.empty();
    EXPECT_TRUE(reasoned) << folder.path();
  }
}

TEST(Inputs, escapes_are_bytes_and_wrong_ones_have_a_column) {
  const fs::path path = fs::path(testing::TempDir()) / "sinktrap_escapes.bytes";
  std::ofstream(path) << "# why\n\\x00a\\\\\\xff\nb\n# another\nc\n";
  const auto inputs = inputs_of(path.string());
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[1].reason, "why");  // shared
  EXPECT_EQ(inputs[2].reason, "another");
  EXPECT_EQ(inputs[0].bytes, std::string("\0a\\\xff", 4));
  EXPECT_EQ(inputs[0].reason, "why");
  std::ofstream(path) << "ab\\xg0\n";
  const auto wrong = read_inputs(path.string());
  fs::remove(path);
  ASSERT_TRUE(std::holds_alternative<std::string>(wrong));
  EXPECT_EQ(std::get<std::string>(wrong), path.string() + ":1:3: expected \\\\ or \\xNN after a backslash");
}

TEST(Finding, text_is_comments_and_the_line) {
  EXPECT_EQ(finding_text({"a-law", "simt", "2 differ", "shard n=1", "./sinktrap check"}),
            "# law: a-law\n# impl: simt\n# target: fuzz_test\n# reason: 2 differ\nshard n=1\n");
  EXPECT_EQ(finding_text({"a-law", "-", "two\nlines", std::string("a\0\xff", 3), ""}),
            "# law: a-law\n# impl: -\n# target: fuzz_test\n# reason: two\\x0alines\n"
            "# the bytes that do not print are escaped in the line below\n# input: a\\x00\\xff\n");
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// In children: a report aborts, and the folder is read from the environment once.
TEST(Finding, is_in_the_folder_before_the_process_dies) {
  const fs::path folder = fs::path(testing::TempDir()) / "sinktrap_findings";
  fs::remove_all(folder);
  fs::create_directory(folder);
  setenv("SINKTRAP_FUZZ_FINDINGS", folder.c_str(), 1);
  EXPECT_EXIT(report({"a-law", "simt", "2 differ", "shard n=1", "./sinktrap check X"}),
              testing::KilledBySignal(SIGABRT), "FINDING of fuzz_test: a-law on simt");
  EXPECT_EXIT((executing("a first, longer line"), executing("the line"), raise(SIGKILL)),
              testing::KilledBySignal(SIGKILL), "");
  setenv("SINKTRAP_FUZZ_FINDINGS", (folder / "none").c_str(), 1);
  EXPECT_EXIT(executing("x"), testing::ExitedWithCode(2), "expected a folder that can be written");
  unsetenv("SINKTRAP_FUZZ_FINDINGS");
  int cases = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".case") {
      ++cases;
      EXPECT_EQ(text_of(file.path()),
                "# law: a-law\n# impl: simt\n# target: fuzz_test\n# reason: 2 differ\nshard n=1\n");
    } else {
      EXPECT_EQ(file.path().filename(), "fuzz_test.current");
      EXPECT_EQ(text_of(file.path()).substr(0, 10), std::string("the line\n\0", 10));
    }
  }
  EXPECT_EQ(cases, 1);
  fs::remove_all(folder);
}

TEST(UnderTest, wrong_names_end_with_one_line_and_code_2) {
  setenv("SINKTRAP_FUZZ_IMPL", "mutant:nothing", 1);
  EXPECT_EXIT(under_test({}), testing::ExitedWithCode(2),
              "^fuzz_test: SINKTRAP_FUZZ_IMPL=mutant:nothing: no mutant");
  setenv("SINKTRAP_FUZZ_IMPL", "simt;nowhere", 1);
  EXPECT_EXIT(under_test({}), testing::ExitedWithCode(2), "^fuzz_test: SINKTRAP_FUZZ_IMPL: --impl nowhere");
  setenv("SINKTRAP_FUZZ_IMPL", "mutant:gelu;mutant:relu", 1);
  EXPECT_EXIT(under_test({}), testing::ExitedWithCode(2), "more than one mutant");
  unsetenv("SINKTRAP_FUZZ_IMPL");
}

// A judged case through all of it: the mutant's line is found, the honest library's is not.
TEST(Execute, a_mutant_is_found_on_its_line) {
  const CaseTarget& target = *find_case_target("fuzz_forward");
  const char* line =
      "forward T=2 n=2 H=4 F=3 R=2 S=2 layout=shared w13=interleaved type=bf16 ranks=2,1 slots=0,-1 "
      "fill=lattice seed=7";
  setenv("SINKTRAP_FUZZ_IMPL", "mutant:no_gamma", 1);
  EXPECT_EXIT(execute_case(target, line), testing::KilledBySignal(SIGABRT),
              "SINKTRAP_FAULT=no_gamma ./sinktrap check");
  setenv("SINKTRAP_FUZZ_IMPL", "mutant:none", 1);
  EXPECT_EXIT((execute_case(target, line), std::exit(0)), testing::ExitedWithCode(0), "");
  unsetenv("SINKTRAP_FUZZ_IMPL");
}

TEST(Laws, that_targets_name_exist_and_none_is_left_out) {
  std::set<std::string_view> named;
  for (const char* name : kCaseTargets)
    for (const auto* list : {&find_case_target(name)->always, &find_case_target(name)->in_turn})
      for (const std::string_view id : *list) {
        EXPECT_NE(find_law(id), nullptr) << id;
        named.insert(id);
      }
  for (const Law& law : laws())  // the same judgement as lattice-is-exact, of other generated cases
    EXPECT_TRUE(named.count(law.id) || law.id == "limits-are-exact") << law.id;
}

}  // namespace
}  // namespace sinktrap::fuzz
