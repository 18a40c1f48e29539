// Return addresses as places in the source, from the debug information: for reports.
#pragma once
#include <cstdint>
#include <string>

namespace sinktrap::simt {

// "cuda_impl/forward.cu:31", with the inlined function's place behind it where the access lies in another
// file: "cuda_impl/forward.cu:31 (cuda_impl/number.cuh:40)". Without debug information or addr2line: the
// module and the offset in it, and why.
std::string place_of_return_address(std::uintptr_t address);

}  // namespace sinktrap::simt
