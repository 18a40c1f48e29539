// An implementation table as a line of text, the input of fuzz_plugin:
//
//   table abi=1 size=280 name=stub caps=65535 seams=0 ... null=0 memory=0 code=0 law=3
//
// Every value is an integer in 0..2^64-1 and is cut to the type of its place; what is left out is that of an
// implementation that does nothing. `name` is text, with %NN for any byte; without it the table has no name.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "cases/case.hpp"
#include "contract/sinktrap.h"

namespace sinktrap::fuzz {

inline constexpr std::string_view kTableKind = "table";
inline constexpr std::string_view kTableFields =
    "abi size name open caps seams declared silu deterministic device memory null code says found instance "
    "view error "
    "law";

struct TableLine {
  std::uint32_t abi = SINKTRAP_ABI_VERSION;
  std::uint32_t size = sizeof(sinktrap_implementation_table);
  std::optional<std::string> name;
  bool open = false;  // the name is not terminated: 64 bytes that are not 0
  std::uint64_t caps = 0;
  sinktrap_declaration declaration{};
  std::int32_t device = kDLCPU;
  std::uint32_t memory =
      0;  // bits 0..3: allocate, release, write, read are there; 4: allocate fails; 5: read fails
  std::uint32_t null = 0;      // bit i: the i-th function of the table, from validate on, is null
  std::int32_t code = 0;       // what every function returns
  std::int32_t says = 0;       // the code in its verdict
  std::int64_t found = 0;      // the other fields of its verdict, each cut to its type
  std::uint32_t instance = 1;  // 0: create gives no instance
  std::uint32_t view =
      0;  // what derived shows; bits: data, shape, strides, wrong type; from bit 4 on the axes
  std::uint32_t error = 0;  // what last_error gives: null, a text, two lines, a long text
  std::uint32_t law = 0;    // the law that judges it, when it was not refused
};

std::variant<TableLine, CaseError> parse_table(std::string_view line);

// The table in memory of exactly the bytes that `size` announces (at least the two first fields), so that
// whoever reads more is seen by AddressSanitizer. Its functions read the line that was built last.
class Table {
 public:
  explicit Table(const TableLine& line);
  const sinktrap_implementation_table* get() const {
    return reinterpret_cast<const sinktrap_implementation_table*>(bytes_.get());
  }

 private:
  std::unique_ptr<char[]> bytes_, name_;
};

}  // namespace sinktrap::fuzz
