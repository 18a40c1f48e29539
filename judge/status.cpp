#include "judge/status.hpp"

#include <array>
#include <cstring>

namespace sinktrap {
namespace {

struct Row {
  std::string_view name, meaning;
};
constexpr std::array<Row, kStatusCount> kRows = {{
    {"PASSED", "the law held, on a case that could have seen a fault"},
    {"FAILED", "the law did not hold"},
    {"VACUOUS", "the law held, but this case could not have seen a fault"},
    {"SKIPPED", "not judged; the reason says what was missing"},
    {"CRASHED", "the implementation killed its worker process"},
    {"TIMED_OUT", "the implementation did not return within the time limit"},
    {"UNSUPPORTED", "the implementation refused the case as unsupported"},
}};

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value{};
    whole_ = whole_ && bytes_.size() >= sizeof value;
    if (whole_) {
      std::memcpy(&value, bytes_.data(), sizeof value);
      bytes_.remove_prefix(sizeof value);
    }
    return value;
  }
  std::string get_text() {
    const std::size_t size = get<std::uint32_t>();
    whole_ = whole_ && bytes_.size() >= size;
    if (!whole_) return "";
    std::string text{bytes_.substr(0, size)};
    bytes_.remove_prefix(size);
    return text;
  }
  // Nothing was missing so far.
  bool whole() const { return whole_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool whole_ = true;
};

}  // namespace

std::string_view status_name(Status s) { return kRows[static_cast<std::size_t>(s)].name; }
std::string_view status_meaning(Status s) { return kRows[static_cast<std::size_t>(s)].meaning; }

std::string Judgement::to_bytes() const {
  std::string bytes;
  put(bytes, status);
  put(bytes, bound_use);
  put(bytes, elements);
  put(bytes, unjudged);
  put(bytes, kinds_seen);
  put(bytes, kinds_vacuous);
  put_text(bytes, bound_stage);
  put_text(bytes, reason);
  put(bytes, static_cast<std::uint32_t>(details.size()));
  for (const std::string& d : details) put_text(bytes, d);
  return bytes;
}

std::optional<Judgement> Judgement::from_bytes(std::string_view bytes) {
  Reader in(bytes);
  Judgement j;
  const auto status = in.get<std::uint8_t>();
  j.status = static_cast<Status>(status);
  j.bound_use = in.get<double>();
  j.elements = in.get<std::int64_t>();
  j.unjudged = in.get<std::int64_t>();
  j.kinds_seen = in.get<std::uint32_t>();
  j.kinds_vacuous = in.get<std::uint32_t>();
  j.bound_stage = in.get_text();
  j.reason = in.get_text();
  for (auto count = in.get<std::uint32_t>(); count > 0 && in.whole(); --count)
    j.details.push_back(in.get_text());
  if (status >= kStatusCount || !in.whole() || !in.at_end()) return std::nullopt;
  return j;
}

void stop(Status status, std::string reason, std::vector<std::string> details) {
  Judgement j;
  j.status = status;
  j.reason = std::move(reason);
  j.details = std::move(details);
  throw Stop{std::move(j)};
}

}  // namespace sinktrap
