# sinktrap_race: the runtime behind -fsanitize=thread (simt/race.hpp). What links it is linked without libtsan, and its
# calls to memcpy and the like, which compilers do not instrument, go through the runtime too.
sinktrap_library(sinktrap_race SOURCES simt/places.cpp simt/race.cpp simt/race_callbacks.cpp simt/race_report.cpp
                 LIBS sinktrap_executor PRIVATE_LIBS ${CMAKE_DL_LIBS})
target_link_options(sinktrap_race INTERFACE -Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset)

# For kernels only, and for host sources that share inline functions with them. -O1 keeps accesses where they are
# written; paths from the project's root are what reports show.
set(SINKTRAP_RACE_OPTIONS -fsanitize=thread -O1 -g -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SINKTRAP_RACE_OPTIONS --param=tsan-distinguish-volatile=1)
else()
  list(APPEND SINKTRAP_RACE_OPTIONS "SHELL:-mllvm -tsan-distinguish-volatile=1")
endif()

# The kernels as they are, the same with faults that can be selected (kernel_fault.cuh), and their host side.
add_library(sinktrap_race_kernels OBJECT ${SINKTRAP_KERNEL_SOURCES})
add_library(sinktrap_race_faults OBJECT ${SINKTRAP_KERNEL_SOURCES})
add_library(sinktrap_race_host OBJECT ${SINKTRAP_HOST_SOURCES})
foreach(objects IN ITEMS sinktrap_race_kernels sinktrap_race_faults sinktrap_race_host)
  target_link_libraries(${objects} PRIVATE sinktrap_flags sinktrap_contract)
  target_compile_options(${objects} PRIVATE ${SINKTRAP_RACE_OPTIONS} -fvisibility=hidden)
endforeach()
target_compile_definitions(sinktrap_race_faults PRIVATE SINKTRAP_KERNEL_MUTANTS)

# sinktrap_race_library(NAME SOURCE KERNELS): a library with nothing visible but what SOURCE exports: the program has
# functions of the same names.
function(sinktrap_race_library name source kernels)
  add_library(${name} MODULE ${source} $<TARGET_OBJECTS:${kernels}> $<TARGET_OBJECTS:sinktrap_race_host>)
  target_link_libraries(${name} PRIVATE sinktrap_contract sinktrap_race)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs)
endfunction()

# One plug-in for each kernel: ./sinktrap run --impl .../libsinktrap_race_ordered.so
set(SINKTRAP_RACE_PLUGINS ordered tiled mma decode)
foreach(kernel IN LISTS SINKTRAP_RACE_PLUGINS)
  sinktrap_race_library(sinktrap_race_${kernel} race_plugin.cpp sinktrap_race_kernels)
  target_compile_definitions(sinktrap_race_${kernel} PRIVATE SINKTRAP_RACE_KERNEL=${kernel}
                                                             SINKTRAP_RACE_NAME="${kernel}")
endforeach()

# For `sinktrap mutants`.
sinktrap_race_library(sinktrap_kernel_mutants kernel_mutants.cpp sinktrap_race_faults)
target_compile_definitions(sinktrap_kernel_mutants PRIVATE SINKTRAP_KERNEL_MUTANTS)
