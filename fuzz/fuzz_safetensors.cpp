// The safetensors reader, on any bytes: it refuses in one line, or what it read can be written and is read
// back the same. That memory stays within the file's size is -malloc_limit_mb's part, and that of the sum
// below.
#include <fmt/format.h>

#include "fuzz/protocol.hpp"
#include "judge/safetensors.hpp"

namespace sinktrap::fuzz {
const char* const kTarget = "fuzz_safetensors";

namespace {

constexpr const char* kLaw = "file-reads-as-written";

[[noreturn]] void broken(const std::string& what, std::string_view input) {
  report({kLaw, "-", what, std::string(input.substr(0, 4096)), "fuzz_safetensors FILE"});
}

void compare(const SafetensorsFile& a, const SafetensorsFile& b, std::string_view input) {
  if (a.metadata != b.metadata) broken("the metadata read back differ", input);
  if (a.tensors.size() != b.tensors.size()) broken("the number of tensors read back differs", input);
  for (const auto& [name, tensor] : a.tensors) {
    const auto it = b.tensors.find(name);
    if (it == b.tensors.end() || !it->second.same_bits(tensor)) broken("a tensor read back differs", input);
  }
}

void execute(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input.data(), input.size()));
  const auto read = parse_safetensors(bytes);
  if (const auto* why = std::get_if<SafetensorsError>(&read)) return check_refusal(kLaw, *why, input);
  const auto& file = std::get<SafetensorsFile>(read);
  std::size_t held = 0;
  for (const auto& named : file.tensors) held += named.second.bytes().size();
  if (held > input.size())
    broken(fmt::format("{} bytes of tensors from a file of {}", held, input.size()), input);
  const auto written = safetensors_bytes(file);
  if (!written) broken("a file that was read cannot be written", input);
  const auto again = parse_safetensors(std::as_bytes(std::span(written->data(), written->size())));
  if (const auto* why = std::get_if<SafetensorsError>(&again))
    broken("the written file is refused: " + *why, input);
  compare(file, std::get<SafetensorsFile>(again), input);
  if (safetensors_bytes(std::get<SafetensorsFile>(again)) != written) broken("writing is not stable", input);
}

}  // namespace
}  // namespace sinktrap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  sinktrap::fuzz::executing(input);
  sinktrap::fuzz::execute(input);
  return 0;
}
