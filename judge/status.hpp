// What became of one case under one law.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinktrap {

enum class Status : std::uint8_t {
  passed,       // the law held, and the case could have seen a fault
  failed,       // the law did not hold
  vacuous,      // the law held, but the case could not have seen a fault
  skipped,      // not judged, for the reason given (a capability or a device is missing)
  crashed,      // the implementation killed its process
  timed_out,    // the implementation did not return in time
  unsupported,  // the implementation refused the case with `unsupported`
};
constexpr int kStatusCount = 7;

std::string_view status_name(Status s);  // "PASSED"
std::string_view status_meaning(Status s);
constexpr bool is_bad(Status s) {
  return s == Status::failed || s == Status::crashed || s == Status::timed_out;
}

struct Judgement {
  Status status = Status::passed;
  std::string reason;                // one line; empty for passed
  std::vector<std::string> details;  // first differing elements and the like
  double bound_use = 0;        // largest |error| / bound over the judged elements; 0 where compared exactly
  std::string bound_stage;     // where most of that element's bound comes from; empty where compared exactly
  std::int64_t bound_at = -1;  // its place; not kept in the bytes
  std::int64_t elements = 0;   // elements (or verdicts) compared
  std::int64_t unjudged = 0;   // elements without a finite bound
  // Kinds of fault (reference/power.hpp, bit i for kind i) that the case could see, and those it is vacuous
  // for.
  std::uint32_t kinds_seen = 0, kinds_vacuous = 0;

  std::string to_bytes() const;
  // Empty for bytes that to_bytes does not make.
  static std::optional<Judgement> from_bytes(std::string_view bytes);
};

// Thrown by the steps of a judgement that cannot go on; the law's caller turns it into the result.
struct Stop {
  Judgement judgement;
};
[[noreturn]] void stop(Status status, std::string reason, std::vector<std::string> details = {});

}  // namespace sinktrap
