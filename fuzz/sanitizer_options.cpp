// AddressSanitizer's options of the fuzz targets; ASAN_OPTIONS in the environment goes before them.
//
// An execution makes some hundred small tensors. By default each keeps a stack of 30 frames and its memory
// out of use until 256 MB are freed, so that every allocation is a page fault: two thirds of the time of a
// small case. One frame and 1 MB find the same faults: an execution allocates a tenth of it, so what is freed
// stays out of use for some executions more. For the full stacks of a finding run it once more with
// ASAN_OPTIONS=malloc_context_size=30.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}
