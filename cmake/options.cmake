# Switches of the build and the flags that every target gets.
option(SINKTRAP_SANITIZE "Build with address and undefined-behaviour sanitizers" OFF)
option(SINKTRAP_FUZZ "Build the libFuzzer targets (clang)" OFF)
option(SINKTRAP_COVERAGE "Build with source-based coverage (clang)" OFF)
option(SINKTRAP_MSAN "Build the kernels and the executor alone, with MemorySanitizer (clang)" OFF)
set(SINKTRAP_FUZZ_ENGINE "-fsanitize=fuzzer" CACHE STRING "What the fuzz targets are linked with ($LIB_FUZZING_ENGINE of OSS-Fuzz)")
set(SINKTRAP_CUDA "AUTO" CACHE STRING "Build the kernels for a GPU: AUTO (where nvcc is), ON, OFF")
set_property(CACHE SINKTRAP_CUDA PROPERTY STRINGS AUTO ON OFF)

# Every version of a compiler has warnings of its own. With those that the project is built with they are errors; with
# another one they must not stop whoever builds it.
set(werror OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.") OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^14\\."))
  set(werror ON)
endif()
option(SINKTRAP_WERROR "Warnings are errors" ${werror})

include(CheckCXXSourceRuns)

add_library(sinktrap_flags INTERFACE)
target_include_directories(sinktrap_flags INTERFACE ${PROJECT_SOURCE_DIR})
# No contraction: the ordered arithmetic says where an fma is meant.
target_compile_options(sinktrap_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;$<$<BOOL:${SINKTRAP_WERROR}>:-Werror>;-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports std::string concatenation falsely (GCC bug 105651).
  target_compile_options(sinktrap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

# The ordered arithmetic calls fma for every product. Where the processor has the instruction, use it.
set(CMAKE_REQUIRED_FLAGS "-mfma")
check_cxx_source_runs(
  "#include <cmath>
   int main(int argc, char**) { return std::fma(float(argc), 2.0f, 1.0f) == 3.0f ? 0 : 1; }" SINKTRAP_HAS_FMA)
unset(CMAKE_REQUIRED_FLAGS)
if(SINKTRAP_HAS_FMA)
  target_compile_options(sinktrap_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-mfma>)
endif()

if(SINKTRAP_SANITIZE)
  target_compile_options(sinktrap_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                                  -fno-omit-frame-pointer -g)
  target_link_options(sinktrap_flags INTERFACE -fsanitize=address,undefined)
endif()

if(SINKTRAP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SINKTRAP_FUZZ needs clang: use the preset fuzz")
  endif()
endif()

if(SINKTRAP_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SINKTRAP_COVERAGE needs clang: use the preset coverage")
  endif()
  # Functions of these folders have counters, also where other folders compile them from a header; what calls them runs
  # without, which is what makes a measurement take minutes.
  set(measured "!src:/usr/*\n")
  foreach(folder IN ITEMS contract reference cuda_impl)
    string(APPEND measured "src:${PROJECT_SOURCE_DIR}/${folder}/*\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/measured.txt CONTENT "${measured}" @ONLY)
  # Counters that live in the mapped file itself (%c in LLVM_PROFILE_FILE): worker processes are forked and end with
  # _exit, or crash, and what they ran still counts.
  target_compile_options(sinktrap_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fprofile-instr-generate;-fcoverage-mapping;-fprofile-list=${PROJECT_BINARY_DIR}/measured.txt;SHELL:-mllvm
                                                  -runtime-counter-relocation>)
  target_link_options(sinktrap_flags INTERFACE -fprofile-instr-generate)
  if(SINKTRAP_FUZZ)
    # Programs that are no fuzz target: libFuzzer's counters are in their objects too, and no other sanitizer brings a runtime.
    target_link_options(sinktrap_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()

if(SINKTRAP_MSAN)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SINKTRAP_MSAN needs clang: use the preset msan")
  endif()
  # Origins of level 2: where a value became uninitialised, and the stores that it passed.
  target_compile_options(sinktrap_flags INTERFACE -fsanitize=memory -fsanitize-memory-track-origins=2 -fno-omit-frame-pointer
                         -fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cuda_impl/simt_msan/ignored.txt)
  target_link_options(sinktrap_flags INTERFACE -fsanitize=memory)
endif()
