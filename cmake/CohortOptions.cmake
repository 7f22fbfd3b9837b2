# SPDX-License-Identifier: Apache-2.0
#
# cohort_options: how everything of ours is compiled. Linked PRIVATE, so that no user inherits a warning or one of these flags.

set(COHORT_SANITIZE "" CACHE STRING "Sanitizer: empty, address (implies undefined), thread or fuzzer (implies both of address)")
set_property(CACHE COHORT_SANITIZE PROPERTY STRINGS "" address thread fuzzer)

add_library(cohort_options INTERFACE)
target_compile_options(cohort_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Resuming is a tail call on g++ only with sibling calls, which -O0 to -O1 leave out (PR 94794). Interposition would
  # keep position independent code from inlining its own functions; clang does not honour it to begin with. The SLP
  # vectorizer loses words of awaited values (coroutine_probe.cpp, loses_word); kernels are vectors as written.
  target_compile_options(cohort_options INTERFACE -foptimize-sibling-calls -fno-semantic-interposition
                                                  -fno-tree-slp-vectorize)
else()
  # Sign conversions are not part of -Wconversion on g++; the deprecated thing is inside of std::stable_sort.
  target_compile_options(cohort_options INTERFACE -Wno-sign-conversion -Wno-deprecated-declarations)
endif()
# For shared objects that are linked with the library, such as what an interpreter loads. In programs the linker makes of it
# what would have been compiled without. For everything alike, so that one precompiled header serves all.
target_compile_options(cohort_options INTERFACE -fPIC)
target_compile_definitions(cohort_options INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

if(COHORT_SANITIZE STREQUAL "address")
  set(COHORT_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(COHORT_SANITIZE STREQUAL "thread")
  set(COHORT_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(COHORT_SANITIZE STREQUAL "fuzzer")
  set(COHORT_SANITIZE_FLAGS -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(COHORT_SANITIZE)
  message(FATAL_ERROR "COHORT_SANITIZE=${COHORT_SANITIZE}: give address, thread, fuzzer or nothing")
endif()
if(COHORT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND COHORT_SANITIZE_FLAGS -Wno-maybe-uninitialized)  # instrumented standard headers set it off
endif()
target_compile_options(cohort_options INTERFACE ${COHORT_SANITIZE_FLAGS})
target_link_options(cohort_options INTERFACE ${COHORT_SANITIZE_FLAGS})

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(COHORT_CCACHE ccache)
  mark_as_advanced(COHORT_CCACHE)
  if(COHORT_CCACHE)
    # Without the latter ccache compiles whatever includes a precompiled header anew; without the former it takes one
    # for another that differs by a comment, which the compiler does not, and preprocesses what it compiles.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${COHORT_CCACHE})
  endif()
endif()
