// The parser and printer of the case language, on any bytes.
#include "fuzz/protocol.hpp"
#include "fuzz/targets.hpp"

namespace sinktrap::fuzz {
const char* const kTarget = "fuzz_case_text";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  sinktrap::fuzz::executing(line);
  sinktrap::fuzz::execute_text(line);
  return 0;
}
