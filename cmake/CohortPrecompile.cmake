# SPDX-License-Identifier: Apache-2.0
#
# What keeps the first build short. Much of what a typical file of ours costs is reading <string>, fmt and the engine,
# so these are compiled once; the rest is shared by compiling the library's files a few at a time.

# Off, every file must include what it uses: lint builds so. Shared libraries do without, because one header
# cannot serve position independent and other code.
option(COHORT_PRECOMPILE "Use precompiled headers" ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS)
  set(COHORT_PRECOMPILE OFF)
endif()

# Off, every file is compiled alone, which tells of a name that it has from another one only: lint builds so.
option(COHORT_UNITY "Compile files several at a time" ${PROJECT_IS_TOP_LEVEL})

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
# The same of algorithms and what stands on them, and of what is above the library.
set(COHORT_SCHEDULES_HEADERS ${COHORT_LIBRARY_HEADERS} <cohort/collectives/schedules/algorithms/library.h>)
set(COHORT_COLLECTIVES_HEADERS ${COHORT_LIBRARY_HEADERS} <cohort/collectives/communicator.h> <cohort/collectives/schedules/algorithms/library.h>)

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

# The files of TARGET are compiled COHORT_UNITY_BATCH at a time, but for those that PATTERN... matches. (g++ 12 takes the frame of a coroutine that was included for a type of several files; clang
# takes a name in one file for a shadow of another's.) More at a time save little.
#
#   cohort_unite(TARGET [PATTERN...])
set(COHORT_UNITY_BATCH 8)
# As a library, which is linked after cohort_options: what it takes back, -Wshadow, stands there.
add_library(cohort_united INTERFACE)
target_compile_options(cohort_united INTERFACE $<IF:$<CXX_COMPILER_ID:GNU>,-Wno-subobject-linkage,-Wno-shadow>)
function(cohort_unite target)
  if(NOT COHORT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${COHORT_UNITY_BATCH})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:cohort_united>)
  file(GLOB_RECURSE alone ${ARGN})
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Those of SOURCES that parse command lines or JSON, in the variable RESULT. The headers that do it define everything
# inline, run once per process, and take far longer to compile with -O3: what includes them is compiled with
# COHORT_LIGHT_OPTIMIZATION.
#
#   cohort_parsers_of(RESULT source...)
function(cohort_parsers_of result)
  set(parsers "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    file(STRINGS ${path} includes REGEX "#include <(CLI/|nlohmann/|cohort/tools/command_line.h)")
    if(includes)
      list(APPEND parsers ${source})
    endif()
  endforeach()
  set(${result} ${parsers} PARENT_SCOPE)
endfunction()
