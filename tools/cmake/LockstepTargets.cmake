# lockstep_library(NAME SOURCES ... [APART ...] DEPS ... [NO_BATCHES]): a static library of ours. APART: sources that are in no batch.
# lockstep_program(NAME SOURCES ... DEPS ...): an executable in LOCKSTEP_BINARY_DIR.
# lockstep_test(NAME SOURCES ... DEPS ... LABEL unit|torch|ranks|e2e [PROPERTIES ...]): a GoogleTest program.
set(_headers <algorithm> <chrono> <cstdint> <functional> <map> <memory> <optional> <span> <string> <variant> <vector>
  <nlohmann/json.hpp>)
add_library(lockstep_pch STATIC "${CMAKE_SOURCE_DIR}/tools/cmake/pch.cc")
target_link_libraries(lockstep_pch PRIVATE lockstep_options)
target_precompile_headers(lockstep_pch PRIVATE ${_headers})

# What a test asserts is many lines that run once: optimizing them takes longer than running them.
add_library(lockstep_test_options INTERFACE)
target_link_libraries(lockstep_test_options INTERFACE lockstep_options GTest::gmock GTest::gtest)
if(LOCKSTEP_SANITIZE)
  # Undefined behaviour is looked for in what we ship; tests are watched by the other sanitizers alone, which compiles a third faster.
  target_compile_options(lockstep_test_options INTERFACE -O0 -fno-sanitize=undefined)
else()
  target_compile_options(lockstep_test_options INTERFACE -O1)
endif()
add_library(lockstep_test_pch STATIC "${CMAKE_SOURCE_DIR}/tools/cmake/pch.cc")
target_link_libraries(lockstep_test_pch PRIVATE lockstep_test_options)
target_precompile_headers(lockstep_test_pch PRIVATE ${_headers} <gmock/gmock.h> <gtest/gtest.h>)

# Sets `out` to files that include eight of `sources` each. What CMake would write (UNITY_BUILD) names the sources by their absolute
# path, so that the compiler cache would never know a batch again in another checkout.
function(lockstep_batches out name sources)
  set(_batches)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources _left)
  while(_left GREATER 0)
    list(SUBLIST sources 0 8 _some)
    list(LENGTH _batches _index)
    set(_text)
    foreach(_source IN LISTS _some)
      file(RELATIVE_PATH _path "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${_source}")
      string(APPEND _text "#include \"${_path}\"\n")
      list(POP_FRONT sources)
    endforeach()
    set(_batch "${CMAKE_CURRENT_BINARY_DIR}/${name}_batch_${_index}.cc")
    file(CONFIGURE OUTPUT "${_batch}" CONTENT "${_text}")
    list(APPEND _batches "${_batch}")
    list(LENGTH sources _left)
  endwhile()
  set(${out} "${_batches}" PARENT_SCOPE)
endfunction()

function(lockstep_library name)
  cmake_parse_arguments(ARG "NO_PCH;NO_BATCHES" "" "SOURCES;APART;DEPS" ${ARGN})
  set(_in_batches OFF)
  if(LOCKSTEP_BATCHES AND NOT ARG_NO_BATCHES)
    set(_in_batches ON)
    lockstep_batches(ARG_SOURCES ${name} "${ARG_SOURCES}")
  endif()
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_APART})
  set_target_properties(${name} PROPERTIES LOCKSTEP_IN_BATCHES ${_in_batches})
  # How we compile is not for those who link the installed library.
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:lockstep_options> ${ARG_DEPS})
  if(NOT ARG_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM lockstep_pch)
  endif()
endfunction()

function(lockstep_program name)
  cmake_parse_arguments(ARG "NO_PCH" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lockstep_options ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${LOCKSTEP_BINARY_DIR}")
endfunction()

# lockstep_test_path(TARGET NAME PATH): defines lockstep::support::NAME (tests/support/paths.h) in TARGET.
function(lockstep_test_path target name path)
  set(_source "${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.cc")
  file(GENERATE OUTPUT "${_source}" CONTENT "#include \"tests/support/paths.h\"

const char* const lockstep::support::${name} = \"${path}\";
")
  target_sources(${target} PRIVATE "${_source}")
  set_source_files_properties("${_source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

include(GoogleTest)
function(lockstep_test name)
  cmake_parse_arguments(ARG "NO_PCH" "LABEL" "SOURCES;DEPS;PROPERTIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lockstep_test_options ${ARG_DEPS} GTest::gtest_main)
  if(NOT ARG_NO_PCH)
    # The header was precompiled with -fPIC; an executable's -fPIE would not match it.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM lockstep_test_pch)
  endif()
  if(LOCKSTEP_SANITIZE)
    # One process for all its tests: each start of an instrumented program costs more than most tests do.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 1200 ${ARG_PROPERTIES})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
      PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 600 ${ARG_PROPERTIES})
  endif()
endfunction()
