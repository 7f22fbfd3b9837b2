# SPDX-License-Identifier: Apache-2.0
#
# Which of g++'s coroutine bugs does this compiler have? Our code is written so that none of them can bite; the day that
# none is present, the rule for co_await (tests/tidy_test.py) can be relaxed. Runs once per build folder.

if(NOT CMAKE_CROSSCOMPILING)
  set(new_probe NOT DEFINED COHORT_PROBE_EXIT)
  if(${new_probe})
    try_run(COHORT_PROBE_EXIT COHORT_PROBE_COMPILED SOURCES ${CMAKE_CURRENT_LIST_DIR}/coroutine_probe.cpp
            COMPILE_DEFINITIONS -O2  # as the library is compiled: what the optimizer does wrong counts, too
            CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
            COMPILE_OUTPUT_VARIABLE probe_errors RUN_OUTPUT_VARIABLE probe_answer)
    if(NOT COHORT_PROBE_COMPILED)
      message(FATAL_ERROR "${CMAKE_CXX_COMPILER} cannot compile a C++20 coroutine:\n${probe_errors}")
    elseif(NOT COHORT_PROBE_EXIT EQUAL 0)
      set(probe_answer "the probe crashed (${COHORT_PROBE_EXIT})")
    endif()
    string(STRIP "${probe_answer}" probe_answer)
    set(COHORT_COROUTINE_BUGS "${probe_answer}" CACHE INTERNAL "Coroutine bugs of this compiler")
  endif()
  message(STATUS "Coroutine bugs of ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: ${COHORT_COROUTINE_BUGS}")
endif()
