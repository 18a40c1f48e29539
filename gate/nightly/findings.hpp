// What the nights have found: one text file for each finding, whole or not there, and the raw ones that wait
// for triage. Nothing is removed before what replaces it is on the disk.
//
// A finding's file has lines "# key: value", then the case line if it has one, then "# end": `sinktrap check
// --file` reads it. Raw bytes lie beside it in a file of the same name with the ending .input.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinktrap::nightly {

enum class Standing : std::uint8_t {
  fresh,      // found since the last report
  open,       // reported before, and it fails still
  unchecked,  // reported before; it could not be judged again, for the reason in `note`
  fixed,      // reported before; it passes now
};
std::string_view standing_name(Standing standing);

struct Finding {
  std::string id;              // name of its file
  std::string target;          // the fuzz target that found it
  std::string kind;            // law, crash, timeout, oom, leak, unreadable
  std::string law;             // empty for other kinds
  std::string implementation;  // --impl of the repeat command; may be empty for raw bytes
  std::string reason;          // one line
  std::string place;           // of a crash: the sanitizer's summary and the function
  std::string line;            // the case as it was found; empty for raw bytes
  std::string smallest;  // the smallest case that fails alike; empty before triage, or if nothing failed
  std::string suspect, suspect_what;  // the known fault that behaves like it; may be empty
  std::string input;                  // file name of the raw bytes, beside this file; may be empty
  std::string repeat;                 // the command for a shell
  std::string first_seen;             // UTC
  std::string note;                   // what triage or the recheck has to say
  std::int64_t times = 1;
  bool triaged = false, reported = false;
  Standing standing = Standing::fresh;

  // What makes two findings the same: law, implementation and suspect; else target, kind and place.
  std::string key() const;
  // The same before the suspect is known.
  std::string raw_key() const;
};

std::string finding_text(const Finding& finding);
// Absent when the text is no finding's file or was cut off.
std::optional<Finding> parse_finding(std::string_view text);

// The file that a target writes: "# law: ...", "# impl: ...", "# target: ...", "# reason: ..." and the case
// line (fuzz/protocol.hpp). A sentence that is no law of the registry, about a reader or a plug-in, is a
// finding of kind "bytes", and what cannot be understood one of kind "unreadable".
Finding read_target_finding(std::string_view text, const std::string& target);

class FindingStore {
 public:
  // Reads everything in `folder`, which is made if missing. Files that are damaged go to its folder damaged/,
  // and `problems` says so; a raw input without its file becomes a raw finding again. Throws
  // std::runtime_error when the folder cannot be made or written.
  explicit FindingStore(std::filesystem::path folder);

  const std::map<std::string, Finding>& all() const { return all_; }  // by key()
  const std::vector<std::string>& problems() const { return problems_; }

  // Takes in a finding that waits for triage; `input_file` is moved beside it where there is one. False when
  // enough of its kind wait already: then it is counted only.
  bool add_raw(Finding finding, const std::filesystem::path& input_file = {});
  const std::vector<Finding>& raw() const { return raw_; }
  std::filesystem::path input_path(const Finding& finding) const;
  // How often a raw finding of this key came before, triaged or not, in this process.
  std::int64_t seen(const std::string& raw_key) const;

  // `triaged` takes the place of the raw finding `raw_id`: a new finding, or one more time of a known one.
  // True when it is new.
  bool settle(const std::string& raw_id, Finding triaged);
  // Writes a changed finding of all().
  void update(const Finding& finding);
  // One that no longer fails: its files go to the folder fixed/, and it does not count any more.
  void retire(const Finding& finding);
  bool full() const;

 private:
  void read_raw();
  void damaged(const std::filesystem::path& path);
  std::filesystem::path folder_;
  std::map<std::string, Finding> all_;
  std::vector<Finding> raw_;
  std::map<std::string, std::int64_t> seen_;
  std::vector<std::string> problems_;
};

}  // namespace sinktrap::nightly
