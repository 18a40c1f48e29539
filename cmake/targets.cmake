# sinktrap_library(NAME SOURCES... LIBS...): a static library of one folder.
function(sinktrap_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC sinktrap_flags ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()

# sinktrap_test(NAME SOURCES... LIBS... LABELS... TIMEOUT seconds GPU pattern): a GoogleTest program; every TEST becomes a
# ctest of its own.
# Tests whose name matches the GPU pattern get the label gpu instead of the others.
function(sinktrap_test name)
  cmake_parse_arguments(ARG "" "GPU;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT BUILD_TESTING)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sinktrap_flags ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE SINKTRAP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_LABELS)
    set(ARG_LABELS smoke)
  endif()
  include(GoogleTest)
  if(ARG_GPU)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "-${ARG_GPU}" PROPERTIES LABELS "${ARG_LABELS}"
                         TIMEOUT ${ARG_TIMEOUT} DISCOVERY_TIMEOUT 60)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "${ARG_GPU}" TEST_LIST ${name}_gpu
                         PROPERTIES LABELS gpu TIMEOUT ${ARG_TIMEOUT} DISCOVERY_TIMEOUT 60)
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                         DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
