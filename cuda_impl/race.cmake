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
