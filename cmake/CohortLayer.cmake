# SPDX-License-Identifier: Apache-2.0

# One layer of the library: every source below the calling folder, as cohort_NAME, alias cohort::NAME.
#
#   cohort_add_layer(NAME [FLAT] [PUBLIC library...] [PRIVATE library...] [PRECOMPILED owner] [PRECOMPILE header...])
#
# PUBLIC is what the layer's headers need, PRIVATE what only its sources do. A layer of headers alone is INTERFACE.
# FLAT: folders below are layers of their own. PRECOMPILED is whose precompiled headers it uses, instead of the
# engine's; PRECOMPILE gives it some of its own.
function(cohort_add_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "FLAT" "PRECOMPILED" "PUBLIC;PRIVATE;PRECOMPILE")
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  set(target cohort_${name})
  set(glob GLOB_RECURSE)
  if(layer_FLAT)
    set(glob GLOB)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(sources)
    add_library(${target} ${sources})
    set(scope PUBLIC)
    # BUILD_INTERFACE: the flags are not part of the installed package.
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:cohort_options> ${layer_PRIVATE})
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(cohort::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} INSTALL_RPATH $ORIGIN)
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} ${scope} ${layer_PUBLIC})
  if(sources)
    if(layer_PRECOMPILE)
      set(layer_PRECOMPILED ${target})
    elseif(NOT layer_PRECOMPILED)
      set(layer_PRECOMPILED cohort_engine)
    endif()
    cohort_precompile(${target} ${layer_PRECOMPILED} ${layer_PRECOMPILE})
    cohort_unite(${target} ${CMAKE_CURRENT_SOURCE_DIR}/reduction/*.cpp)
  endif()

  install(TARGETS ${target} EXPORT cohort)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cohort/${folder}
          FILES_MATCHING PATTERN "*.h")
  set_property(GLOBAL APPEND PROPERTY COHORT_LAYERS ${name})
endfunction()

# A program of ours, in bin/ of the build.
#
#   cohort_add_program(TARGET source... [LIBRARIES library...] [PRECOMPILED owner])
#
# PRECOMPILED is whose precompiled headers it uses, instead of those of collectives.
function(cohort_add_program target)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "PRECOMPILED" "LIBRARIES")
  add_executable(${target} ${program_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE cohort_options cohort::cohort ${program_LIBRARIES})
  if(NOT program_PRECOMPILED)
    set(program_PRECOMPILED cohort_collectives)
  endif()
  cohort_precompile(${target} ${program_PRECOMPILED})
  cohort_parsers_of(parsers ${program_UNPARSED_ARGUMENTS})
  set_property(SOURCE ${parsers} APPEND PROPERTY COMPILE_OPTIONS ${COHORT_LIGHT_OPTIMIZATION})
endfunction()

# Parts of programs, as a library of files below the calling folder, so that tests can link them. Of *.cpp patterns.
#
#   cohort_add_parts(TARGET pattern... [WITHOUT pattern...] [LIBRARIES library...])
function(cohort_add_parts target)
  cmake_parse_arguments(PARSE_ARGV 1 parts "" "" "WITHOUT;LIBRARIES")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${parts_UNPARSED_ARGUMENTS})
  if(parts_WITHOUT)
    file(GLOB_RECURSE others CONFIGURE_DEPENDS ${parts_WITHOUT})
    list(REMOVE_ITEM sources ${others})
  endif()
  # What parses is compiled apart, because all files of a unity have the same options.
  cohort_parsers_of(parsers ${sources})
  list(REMOVE_ITEM sources ${parsers})
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC cohort::cohort ${parts_LIBRARIES} PRIVATE cohort_options)
  cohort_precompile(${target} cohort_collectives)
  cohort_unite(${target})
  if(parsers)
    add_library(${target}_parsers OBJECT ${parsers})
    target_link_libraries(${target}_parsers PRIVATE cohort::cohort ${parts_LIBRARIES} cohort_options)
    target_compile_options(${target}_parsers PRIVATE ${COHORT_LIGHT_OPTIMIZATION})
    cohort_precompile(${target}_parsers cohort_collectives)
    cohort_unite(${target}_parsers)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_parsers>)
  endif()
endfunction()
