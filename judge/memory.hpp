// How much memory this machine can still give, for cases that take gigabytes.
#pragma once
#include <cstdint>
#include <string>

namespace sinktrap {

// Bytes that can be taken without swapping: MemAvailable of Linux, or what is left of the container's limit
// (cgroup v2) where that is less. INT64_MAX where neither can be read.
std::int64_t available_memory();

// The same from other places: a file like /proc/meminfo, and a folder like /sys/fs/cgroup.
std::int64_t available_memory(const std::string& meminfo, const std::string& cgroup);

}  // namespace sinktrap
