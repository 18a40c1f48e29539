// Findings survive what may happen to a process and to its files.
#include "gate/nightly/findings.hpp"

#include <gtest/gtest.h>

#include "gate/corpus.hpp"
#include "gate/nightly/bounds.hpp"
#include "gate/nightly/files.hpp"
#include "scratch.hpp"

namespace sinktrap::nightly {
namespace {

constexpr const char* kLine =
    "pack n=1 H=1 F=1 R=2 S=1 layout=shared type=bf16 ranks=0 slot=0 r=1 factors=separate scaling=1 "
    "fill=dense seed=0";

Finding law_finding(const std::string& law = "load-leaves-no-trace",
                    const std::string& suspect = "up_half_at_r") {
  Finding f;
  f.target = "fuzz_pack";
  f.kind = "law";
  f.law = law;
  f.implementation = "./faulty.so";
  f.reason = "2 of 4 elements differ";
  f.line = f.smallest = kLine;
  f.suspect = suspect;
  f.suspect_what = "up rows at r";
  f.repeat = "./sinktrap check --impl './faulty.so' '...'";
  f.first_seen = "2026-01-01T00:00:00Z";
  return f;
}

TEST(FindingText, ComesBackAsItWas) {
  Finding f = law_finding();
  f.triaged = true;
  f.times = 7;
  f.line = "layout n=1";
  f.reason = "two\nlines";
  const auto back = parse_finding(finding_text(f));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->law, f.law);
  EXPECT_EQ(back->smallest, f.smallest);
  EXPECT_EQ(back->line, "layout n=1");
  EXPECT_EQ(back->suspect_what, f.suspect_what);
  EXPECT_EQ(back->times, 7);
  EXPECT_TRUE(back->triaged);
  EXPECT_EQ(back->reason, "two lines");
}

TEST(FindingText, IsACaseFileForCheck) {
  const Scratch scratch;
  write_whole(scratch.path() / "f.finding", finding_text(law_finding()));
  const auto read = read_case_file((scratch.path() / "f.finding").string());
  ASSERT_TRUE(std::holds_alternative<std::vector<CorpusEntry>>(read)) << std::get<std::string>(read);
  ASSERT_EQ(std::get<std::vector<CorpusEntry>>(read).size(), 1u);
  EXPECT_EQ(std::get<std::vector<CorpusEntry>>(read)[0].line, kLine);
}

TEST(FindingText, EveryCutOffFileIsRefused) {
  const std::string whole = finding_text(law_finding());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_finding(whole.substr(0, size))) << size << " of " << whole.size();
}

TEST(TargetFinding, TheAgreedFileIsUnderstood) {
  const Finding f = read_target_finding(
      std::string(
          "# law: load-leaves-no-trace\n# impl: ./faulty.so\n# target: fuzz_pack\n# reason: it differs\n") +
          kLine + "\n",
      "fuzz_pack");
  EXPECT_EQ(f.kind, "law");
  EXPECT_EQ(f.law, "load-leaves-no-trace");
  EXPECT_EQ(f.implementation, "./faulty.so");
  EXPECT_EQ(f.reason, "it differs");
  EXPECT_EQ(f.line, kLine);
}

TEST(TargetFinding, ACutOffFileIsAFindingStill) {
  const std::string whole = std::string("# law: x\n# impl: y\n# reason: z\n") + kLine + "\n";
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{20}}) {
    const Finding f = read_target_finding(whole.substr(0, size), "fuzz_pack");
    EXPECT_EQ(f.kind, "unreadable") << size;
    EXPECT_TRUE(f.line.empty());
  }
}

TEST(TargetFinding, WhatIsNoLawOfTheRegistryIsAboutBytes) {
  for (const char* line : {kLine, "no case at all", "# input: \\x00\\xff"}) {
    const Finding f = read_target_finding(
        std::string(
            "# law: a refusal is one line\n# impl: -\n# target: fuzz_case_text\n# reason: it has two\n") +
            line + "\n",
        "fuzz_case_text");
    EXPECT_EQ(f.kind, "bytes") << line;
    EXPECT_EQ(f.place, "a refusal is one line");
    EXPECT_EQ(f.reason, "it has two");
    EXPECT_TRUE(f.law.empty() && f.line.empty());
  }
}

TEST(FindingStore, WhatIsRawIsThereAfterTheProcess) {
  const Scratch scratch;
  {
    FindingStore store(scratch.path());
    EXPECT_TRUE(store.add_raw(law_finding()));
  }
  FindingStore store(scratch.path());
  ASSERT_EQ(store.raw().size(), 1u);
  EXPECT_EQ(store.raw()[0].line, kLine);
  EXPECT_TRUE(store.all().empty());
}

TEST(FindingStore, TheSameFaultIsOneFindingSeenTwice) {
  const Scratch scratch;
  FindingStore store(scratch.path());
  Finding first = law_finding(), second = law_finding();
  second.line = "layout n=2";
  store.add_raw(first);
  store.add_raw(second);
  ASSERT_EQ(store.raw().size(), 2u);
  EXPECT_TRUE(store.settle(store.raw()[0].id, first));
  EXPECT_FALSE(store.settle(store.raw()[0].id, second));
  EXPECT_TRUE(store.raw().empty());
  const FindingStore again(scratch.path());
  ASSERT_EQ(again.all().size(), 1u);
  EXPECT_EQ(again.all().begin()->second.times, 2);
}

TEST(FindingStore, AnotherSuspectBehindTheSameLawIsAnotherFinding) {
  const Scratch scratch;
  FindingStore store(scratch.path());
  EXPECT_TRUE(store.settle("", law_finding()));
  EXPECT_TRUE(store.settle("", law_finding("load-leaves-no-trace", "stale_slot")));
  EXPECT_TRUE(store.settle("", law_finding("lattice-is-exact", "up_half_at_r")));
  EXPECT_EQ(FindingStore(scratch.path()).all().size(), 3u);
}

TEST(FindingStore, TheSmallerCaseOfTwoIsKept) {
  const Scratch scratch;
  FindingStore store(scratch.path());
  Finding large = law_finding(), small = law_finding();
  large.smallest += " and more";
  store.settle("", large);
  store.settle("", small);
  EXPECT_EQ(store.all().begin()->second.smallest, kLine);
  store.settle("", large);
  EXPECT_EQ(store.all().begin()->second.smallest, kLine);
}

TEST(FindingStore, WaitingFindingsOfOneKindAreBounded) {
  const Scratch scratch;
  FindingStore store(scratch.path());
  for (int i = 0; i < 100; ++i) {
    Finding f = law_finding();
    f.line = "layout n=" + std::to_string(i + 1);
    store.add_raw(f);
  }
  EXPECT_EQ(store.raw().size(), static_cast<std::size_t>(Bounds::raw_per_key));
  EXPECT_EQ(store.seen(law_finding().raw_key()), 100);
}

TEST(FindingStore, BytesMoveWithTheirFinding) {
  const Scratch scratch;
  FindingStore store(scratch.path() / "findings");
  write_whole(scratch.path() / "crash-1", "bytes of a crash");
  Finding f;
  f.target = "fuzz_case_text";
  f.kind = "crash";
  ASSERT_TRUE(store.add_raw(f, scratch.path() / "crash-1"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "crash-1"));
  const auto raw_input = store.input_path(store.raw()[0]);
  EXPECT_EQ(read_whole(raw_input), "bytes of a crash");
  Finding done = store.raw()[0];
  done.triaged = true;
  done.repeat = "fuzz_case_text '" + raw_input.string() + "'";
  store.settle(done.id, done);
  const Finding& kept = store.all().begin()->second;
  EXPECT_EQ(read_whole(store.input_path(kept)), "bytes of a crash");
  EXPECT_NE(kept.repeat.find(store.input_path(kept).string()), std::string::npos) << kept.repeat;
}

TEST(FindingStore, AnInputWithoutItsFileIsTakenUp) {
  const Scratch scratch;
  make_folder(scratch.path() / "raw");
  write_whole(scratch.path() / "raw" / "fuzz_state.0123.input", "left by a killed process");
  const FindingStore store(scratch.path());
  ASSERT_EQ(store.raw().size(), 1u);
  EXPECT_EQ(store.raw()[0].target, "fuzz_state");
  EXPECT_EQ(read_whole(store.input_path(store.raw()[0])), "left by a killed process");
}

TEST(FindingStore, DamagedFilesAreSetAsideAndSaid) {
  const Scratch scratch;
  FindingStore(scratch.path()).settle("", law_finding());
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    if (entry.path().extension() == ".finding") file = entry.path();
  const std::string whole = *read_whole(file);
  write_whole(file, whole.substr(0, whole.size() / 2));
  const FindingStore store(scratch.path());
  EXPECT_TRUE(store.all().empty());
  ASSERT_EQ(store.problems().size(), 1u);
  EXPECT_NE(store.problems()[0].find(file.filename().string()), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "damaged" / file.filename()));
}

TEST(FindingStore, NamesFromOutsideStayInTheFolder) {
  const Scratch scratch;
  FindingStore store(scratch.path() / "findings");
  Finding f = law_finding("../../escape");
  f.target = "../up";
  store.add_raw(f);
  store.settle(store.raw()[0].id, f);
  std::size_t outside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    outside += entry.path().filename() != "findings";
  EXPECT_EQ(outside, 0u);
  EXPECT_EQ(FindingStore(scratch.path() / "findings").all().size(), 1u);
}

TEST(Files, AWriteThatFailsLeavesTheOldFile) {
  const Scratch scratch;
  write_whole(scratch.path() / "f", "old");
  EXPECT_THROW(write_whole(scratch.path() / "missing" / "f", "new"), std::runtime_error);
  EXPECT_EQ(read_whole(scratch.path() / "f"), "old");
}

TEST(Files, TheLargestGoFirst) {
  const Scratch scratch;
  for (int i = 1; i <= 4; ++i)
    write_whole(scratch.path() / std::to_string(i), std::string(static_cast<std::size_t>(i) * 10, 'x'));
  EXPECT_EQ(trim_folder(scratch.path(), 35, 100), 2);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "1"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "4"));
  EXPECT_EQ(trim_folder(scratch.path(), 1000, 1), 1);
}

TEST(Files, AFreshFolderTakesThePlaceOfTheOld) {
  const Scratch scratch;
  make_folder(scratch.path() / "corpus");
  make_folder(scratch.path() / "fresh");
  write_whole(scratch.path() / "corpus" / "old", "o");
  write_whole(scratch.path() / "fresh" / "new", "n");
  replace_folder(scratch.path() / "corpus", scratch.path() / "fresh");
  EXPECT_EQ(read_whole(scratch.path() / "corpus" / "new"), "n");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "corpus" / "old"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "fresh"));
}

}  // namespace
}  // namespace sinktrap::nightly
