# SPDX-License-Identifier: Apache-2.0

include(CMakePackageConfigHelpers)

# The whole library behind the functions of a header in C: every source of the calling folder, as libcohort_NAME.so, alias
# cohort::NAME, component NAME, for find_package(cohort_NAME) and pkg-config cohort_NAME. The folder has what it exports,
# cohort_NAME.map, and cohort_NAME.pc.in.
#
#   cohort_add_binding(NAME INCLUDE folder INSTALLED folder)
#
# Where programs find its headers, in the tree and below the prefix of an installation, where the caller installs them.
function(cohort_add_binding name)
  cmake_parse_arguments(PARSE_ARGV 1 binding "" "INCLUDE;INSTALLED" "")
  set(target cohort_${name})
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/${target}.map)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_library(${target} SHARED ${sources})
  add_library(cohort::${name} ALIAS ${target})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:cohort_options> $<BUILD_INTERFACE:cohort::session>)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${binding_INCLUDE}>
                                                 $<INSTALL_INTERFACE:${binding_INSTALLED}>)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:-Bsymbolic)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${map} EXPORT_NAME ${name}
                                             INSTALL_RPATH $ORIGIN SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  cohort_precompile(${target} cohort_engine)

  install(TARGETS ${target} EXPORT ${target} COMPONENT ${name})
  set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/${target})
  set(version ${CMAKE_CURRENT_BINARY_DIR}/${target}ConfigVersion.cmake)
  install(EXPORT ${target} NAMESPACE cohort:: FILE ${target}Config.cmake DESTINATION ${config_dir} COMPONENT ${name})
  write_basic_package_version_file(${version} COMPATIBILITY SameMinorVersion)
  install(FILES ${version} DESTINATION ${config_dir} COMPONENT ${name})
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
             OUTPUT_VARIABLE COHORT_PC_PREFIX)
  configure_file(${target}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${target}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${name})
endfunction()
