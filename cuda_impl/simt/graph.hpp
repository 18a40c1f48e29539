// Capture of launches into graphs, and their replay: the CPU's model of CUDA graphs. A node holds what a real
// one freezes at capture, that is a kernel with its grid and its arguments by value; what the arguments point
// to is looked at when the graph is replayed.
#pragma once
#include <string>

#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

// For operations that CUDA does not allow while a stream is captured: true when this OS thread is capturing.
// error() then says so, and end_capture will fail with the first of these texts.
bool refused_in_capture(const char* operation);

// A copy or a fill becomes a node; false when this OS thread is not capturing.
bool record_copy(void* to, const void* from, std::uint64_t bytes);
bool record_fill(void* device, int byte, std::uint64_t bytes);

}  // namespace sinktrap::simt
