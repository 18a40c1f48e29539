// The executor's side of AddressSanitizer, UndefinedBehaviorSanitizer and MemorySanitizer: memory outside of
// allocations is poisoned, and a report names the block and the thread that it interrupts. In a build without
// them each function does nothing: the sanitizers' functions are weak symbols, so that one object serves all
// builds.
//
// The executor itself is compiled without instrumentation; accesses that it makes for a kernel are checked
// here.
#pragma once
#include <cstddef>

namespace sinktrap::simt {

bool address_sanitizer();
void poison(const void* address, std::size_t bytes);
void unpoison(const void* address, std::size_t bytes);
// Under MemorySanitizer: what lies there is not initialised, whatever bytes it has.
void uninitialised(const void* address, std::size_t bytes);
// Ends the process with AddressSanitizer's report when some of the bytes are poisoned.
void check_address(const void* address, std::size_t bytes, bool write);

}  // namespace sinktrap::simt
