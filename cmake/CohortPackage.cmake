# SPDX-License-Identifier: Apache-2.0
#
# What a user of the installed library finds: find_package(cohort) and pkg-config cohort.

include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/cohortConfig.cmake.in ${PROJECT_BINARY_DIR}/cohortConfig.cmake
                              INSTALL_DESTINATION ${config_dir} NO_SET_AND_CHECK_MACRO
                              PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohortConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cohortConfig.cmake ${PROJECT_BINARY_DIR}/cohortConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/CohortCheckAwaits.cmake DESTINATION ${config_dir})
install(EXPORT cohort NAMESPACE cohort:: FILE cohortTargets.cmake DESTINATION ${config_dir})
# What g++ 12 compiles wrongly (docs/use/guide.md) users can look for in their own sources.
install(PROGRAMS tests/check_awaits.py DESTINATION ${CMAKE_INSTALL_DATADIR}/cohort)
install(FILES tests/tidy_source.py DESTINATION ${CMAKE_INSTALL_DATADIR}/cohort)
install(FILES cohort.h asio.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cohort)

# Static archives leave their dependencies to whoever links them, so they are plain Requires then: `pkg-config --libs
# cohort` is enough, without --static.
set(private_modules "${LIBURING_SPEC}, libssl, libcrypto, ${HWY_SPEC}")
if(BUILD_SHARED_LIBS)
  set(COHORT_PC_REQUIRES "fmt")
  set(COHORT_PC_REQUIRES_PRIVATE "${private_modules}")
else()
  set(COHORT_PC_REQUIRES "fmt, ${private_modules}")
  set(COHORT_PC_REQUIRES_PRIVATE "")
endif()
set(COHORT_PC_CFLAGS "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(COHORT_PC_CFLAGS " -fno-tree-slp-vectorize")  # as cohort::cohort has it
endif()
# From top to bottom: a static archive stands before the ones it needs.
set(COHORT_PC_LIBS "")
get_property(layers GLOBAL PROPERTY COHORT_LAYERS)
list(REMOVE_ITEM layers asio)  # of headers alone
list(REVERSE layers)
foreach(layer IN LISTS layers)
  get_target_property(type cohort_${layer} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    string(APPEND COHORT_PC_LIBS " -lcohort_${layer}")
  endif()
endforeach()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE COHORT_PC_PREFIX)
configure_file(${CMAKE_CURRENT_LIST_DIR}/cohort.pc.in ${PROJECT_BINARY_DIR}/cohort.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cohort.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
