#include "gate/nightly/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "cases/case.hpp"
#include "gate/nightly/bounds.hpp"
#include "gate/nightly/files.hpp"
#include "properties/law.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEnd = "# end";

// Values are one line, so that a file has the lines that it should have.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  return line;
}

// Names of files come from what targets and files say.
std::string file_name(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, 80)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    name += plain ? c : '_';
  }
  return name.empty() ? "unknown" : name;
}

struct TextField {
  std::string_view name;
  std::string Finding::*value;
};
constexpr std::array<TextField, 13> kTextFields = {{{"target", &Finding::target},
                                                    {"kind", &Finding::kind},
                                                    {"law", &Finding::law},
                                                    {"impl", &Finding::implementation},
                                                    {"reason", &Finding::reason},
                                                    {"place", &Finding::place},
                                                    {"found as", &Finding::line},
                                                    {"suspect", &Finding::suspect},
                                                    {"suspect is", &Finding::suspect_what},
                                                    {"input", &Finding::input},
                                                    {"repeat", &Finding::repeat},
                                                    {"first seen", &Finding::first_seen},
                                                    {"note", &Finding::note}}};

// Calls `pair` for every line "# key: value" and `other` for every line without a #.
template <class Pair, class Other>
void for_lines(std::string_view text, Pair&& pair, Other&& other) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.size(), text.find('\n'));
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const std::size_t colon = line.find(": ");
    if (line.substr(0, 2) == "# ") {
      if (colon != std::string_view::npos) pair(line.substr(2, colon - 2), line.substr(colon + 2));
    } else if (!line.empty() && line[0] != '#') {
      other(line);
    }
  }
}

}  // namespace

std::string_view standing_name(Standing standing) {
  constexpr std::array<std::string_view, 4> names = {"new", "open", "not checked", "no longer fails"};
  return names[static_cast<std::size_t>(standing)];
}

std::string Finding::raw_key() const {
  if (!law.empty()) return fmt::format("{}|{}|{}", target, implementation, law);
  return fmt::format("{}|{}|{}", target, kind, place);
}

std::string Finding::key() const {
  if (!law.empty()) return fmt::format("{}|{}|{}", law, implementation, suspect);
  return fmt::format("{}|{}|{}", target, kind, place);
}

std::string finding_text(const Finding& f) {
  std::string text;
  for (const TextField& field : kTextFields)
    if (!(f.*field.value).empty()) text += fmt::format("# {}: {}\n", field.name, one_line(f.*field.value));
  text += fmt::format("# times: {}\n# triaged: {}\n# reported: {}\n", f.times, f.triaged ? "yes" : "no",
                      f.reported ? "yes" : "no");
  const std::string& shown = f.smallest.empty() ? f.line : f.smallest;
  if (!shown.empty()) text += one_line(shown) + "\n";
  return text + std::string(kEnd) + "\n";
}

std::optional<Finding> parse_finding(std::string_view text) {
  if (text.size() < kEnd.size() + 1 || text.substr(text.size() - kEnd.size() - 1) != std::string(kEnd) + "\n")
    return std::nullopt;
  Finding f;
  for_lines(
      text,
      [&](std::string_view name, std::string_view value) {
        for (const TextField& field : kTextFields)
          if (name == field.name) f.*field.value = value;
        if (name == "times") std::from_chars(value.data(), value.data() + value.size(), f.times);
        if (name == "triaged") f.triaged = value == "yes";
        if (name == "reported") f.reported = value == "yes";
      },
      [&](std::string_view line) { f.smallest = line; });
  if (f.kind.empty()) return std::nullopt;
  f.input = fs::path(f.input).filename().string();
  if (!f.triaged || f.line.empty()) {
    if (f.line.empty()) f.line = f.smallest;
    if (!f.triaged) f.smallest.clear();
  }
  return f;
}

Finding read_target_finding(std::string_view text, const std::string& target) {
  Finding f;
  f.target = target;
  f.first_seen = utc_now();
  int lines = 0;
  for_lines(
      text,
      [&](std::string_view name, std::string_view value) {
        if (name == "law") f.law = value;
        if (name == "impl") f.implementation = value;
        if (name == "reason") f.reason = value;
      },
      [&](std::string_view line) {
        f.line = line;
        ++lines;
      });
  if (f.law.empty() || f.implementation.empty() || f.reason.empty()) {
    f.kind = "unreadable";
    f.place = f.law.empty() ? "a finding without a law" : f.law;
    f.note = "the target's file was not complete; its bytes are kept";
  } else if (lines == 1 && find_law(f.law) != nullptr && std::holds_alternative<Case>(parse_case(f.line))) {
    f.kind = "law";
    return f;
  } else {
    f.kind = "bytes";
    f.place = f.law;
  }
  f.law.clear();
  f.line.clear();
  f.implementation.clear();
  return f;
}

FindingStore::FindingStore(fs::path folder) : folder_(std::move(folder)) {
  make_folder(folder_ / "raw");
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_, error)) paths.push_back(entry.path());
  for (const fs::path& path : paths) {
    if (path.extension() == ".tmp") fs::remove(path, error);  // half written by a process that is gone
    if (path.extension() != ".finding") continue;
    auto f = parse_finding(read_whole(path).value_or(""));
    if (!f || !f->triaged) {
      damaged(path);
      continue;
    }
    f->id = path.stem().string();
    f->standing = f->reported ? Standing::unchecked : Standing::fresh;
    all_.emplace(f->key(), std::move(*f));
  }
  read_raw();
}

void FindingStore::damaged(const fs::path& path) {
  make_folder(folder_ / "damaged");
  std::error_code error;
  fs::rename(path, folder_ / "damaged" / path.filename(), error);
  problems_.push_back(fmt::format("{}: not a complete finding; it lies in {} now", path.string(),
                                  (folder_ / "damaged").string()));
}

void FindingStore::read_raw() {
  std::error_code error;
  std::vector<fs::path> inputs, texts;
  for (const auto& entry : fs::directory_iterator(folder_ / "raw", error)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".tmp") fs::remove(path, error);
    if (path.extension() == ".input") inputs.push_back(path);
    if (path.extension() == ".finding") texts.push_back(path);
  }
  for (const fs::path& path : texts) {
    auto f = parse_finding(read_whole(path).value_or(""));
    if (!f) {
      damaged(path);
      continue;
    }
    f->id = path.stem().string();
    raw_.push_back(std::move(*f));
  }
  // The input comes first to its place, so a process that ended in between has left one alone.
  for (const fs::path& path : inputs) {
    const std::string id = path.stem().string();
    if (std::any_of(raw_.begin(), raw_.end(), [&](const Finding& f) { return f.id == id; })) continue;
    Finding f;
    f.id = id;
    f.target = id.substr(0, id.find('.'));
    f.kind = "crash";
    f.input = path.filename().string();
    f.first_seen = utc_now();
    f.note = "taken up from its input alone";
    write_whole(folder_ / "raw" / (id + ".finding"), finding_text(f));
    raw_.push_back(std::move(f));
  }
}

bool FindingStore::add_raw(Finding f, const fs::path& input_file) {
  std::error_code error;
  const std::string key = f.raw_key();
  ++seen_[key];
  const auto waiting =
      std::count_if(raw_.begin(), raw_.end(), [&](const Finding& r) { return r.raw_key() == key; });
  if (waiting >= Bounds::raw_per_key || seen_[key] > 2L * Bounds::raw_per_key) {
    fs::remove(input_file, error);
    return false;
  }
  const std::string bytes =
      input_file.empty() ? "" : read_whole(input_file, Bounds::input_bytes).value_or("");
  f.id = fmt::format("{}.{}", file_name(f.target), digest(key + "\n" + f.line + "\n" + bytes));
  const bool known = std::any_of(raw_.begin(), raw_.end(), [&](const Finding& r) { return r.id == f.id; });
  if (!input_file.empty()) {
    f.input = f.id + ".input";
    write_whole(folder_ / "raw" / f.input, bytes);
  }
  write_whole(folder_ / "raw" / (f.id + ".finding"), finding_text(f));
  fs::remove(input_file, error);
  if (!known) raw_.push_back(std::move(f));
  return true;
}

fs::path FindingStore::input_path(const Finding& f) const {
  return (f.triaged ? folder_ : folder_ / "raw") / f.input;
}

std::int64_t FindingStore::seen(const std::string& raw_key) const {
  const auto at = seen_.find(raw_key);
  return at == seen_.end() ? 0 : at->second;
}

bool FindingStore::settle(const std::string& raw_id, Finding triaged) {
  const auto raw = std::find_if(raw_.begin(), raw_.end(), [&](const Finding& f) { return f.id == raw_id; });
  const fs::path raw_input =
      raw == raw_.end() || raw->input.empty() ? fs::path() : folder_ / "raw" / raw->input;
  triaged.triaged = true;
  const auto known = all_.find(triaged.key());
  const bool is_new = known == all_.end();
  std::error_code error;
  if (is_new) {
    triaged.id = fmt::format("{}-{}", file_name(triaged.law.empty() ? triaged.kind : triaged.law),
                             digest(triaged.key()));
    if (!triaged.input.empty() && !raw_input.empty()) {
      // Triage knows the raw name; from now on it has that of the finding.
      const std::string name = triaged.id + ".input";
      const std::size_t at = triaged.repeat.find(raw_input.string());
      if (at != std::string::npos)
        triaged.repeat.replace(at, raw_input.string().size(), (folder_ / name).string());
      write_whole(folder_ / name, read_whole(raw_input).value_or(""));
      triaged.input = name;
    }
    triaged.standing = Standing::fresh;
    write_whole(folder_ / (triaged.id + ".finding"), finding_text(triaged));
    all_.emplace(triaged.key(), std::move(triaged));
  } else {
    Finding& f = known->second;
    ++f.times;
    if (!triaged.smallest.empty() && triaged.smallest.size() < f.smallest.size()) {
      f.smallest = triaged.smallest;
      f.reason = triaged.reason;
      f.repeat = triaged.repeat;
    }
    // One that had been put right is back.
    if (f.standing != Standing::fresh) f.standing = Standing::open;
    update(f);
  }
  fs::remove(folder_ / "raw" / (raw_id + ".finding"), error);
  if (!raw_input.empty()) fs::remove(raw_input, error);
  if (raw != raw_.end()) raw_.erase(raw);
  return is_new;
}

void FindingStore::update(const Finding& f) {
  all_[f.key()] = f;
  write_whole(folder_ / (f.id + ".finding"), finding_text(f));
}

void FindingStore::retire(const Finding& f) {
  const fs::path to = folder_ / "fixed";
  make_folder(to);
  std::error_code error;
  if (!f.input.empty()) fs::rename(folder_ / f.input, to / f.input, error);
  fs::rename(folder_ / (f.id + ".finding"), to / (f.id + ".finding"), error);
  trim_folder(to, Bounds::corpus_bytes, 2UL * Bounds::findings);
  all_.erase(f.key());
}

bool FindingStore::full() const { return all_.size() >= static_cast<std::size_t>(Bounds::findings); }

}  // namespace sinktrap::nightly
