# SPDX-License-Identifier: Apache-2.0
#
# What keeps the first build short. Reading <string>, fmt and the engine is half of what a typical file of ours costs, so
# these are compiled once. (Unity builds are not for this tree: algorithm files share the names of their parts, and g++ 12
# takes the frame of a coroutine that was included for a type of several files, -Wsubobject-linkage.)

# Off, every file must include what it uses: lint builds so. Shared libraries do without, because one header
# cannot serve position independent and other code.
option(COHORT_PRECOMPILE "Use precompiled headers" ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS)
  set(COHORT_PRECOMPILE OFF)
endif()

# Instead of a release's -O3 and the -O1 of sanitizers, where speed of the program is not the point. (g++ spends as long on
# -O0, which writes more.)
set(COHORT_LIGHT_OPTIMIZATION $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
if(COHORT_SANITIZE)
  set(COHORT_LIGHT_OPTIMIZATION -Og)
endif()

# What most files of the library include.
set(COHORT_LIBRARY_HEADERS
    <algorithm> <array> <atomic> <chrono> <coroutine> <cstddef> <cstdint> <cstring> <exception> <functional> <map> <memory>
    <mutex> <optional> <span> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h>
    <cohort/engine/engine.h> <cohort/engine/error.h> <cohort/engine/task.h>)
# The same of algorithms, and of what is above the library.
set(COHORT_COLLECTIVES_HEADERS ${COHORT_LIBRARY_HEADERS} <cohort/collectives/communicator.h> <cohort/collectives/algorithms/library.h>)

# The files of TARGET find HEADER... compiled: as OWNER compiles them, or now if TARGET is OWNER. Both have the same flags.
#
#   cohort_precompile(TARGET OWNER [HEADER...])
function(cohort_precompile target owner)
  if(NOT COHORT_PRECOMPILE)
    return()
  endif()
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# Files of TARGET that parse command lines or JSON are compiled with -Og: the headers that do it define everything inline,
# run once per process, and take twice as long with -O3 (8 s a file).
function(cohort_parse_at_leisure target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    file(STRINGS ${path} parsers REGEX "#include <(CLI/|nlohmann/|cohort/tools/command_line.h)")
    if(parsers)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${COHORT_LIGHT_OPTIMIZATION})
    endif()
  endforeach()
endfunction()
