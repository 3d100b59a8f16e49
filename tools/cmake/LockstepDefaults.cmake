# Language level, warnings, sanitizers, compiler cache and precompiled headers of every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(CCACHE ccache)
if(CCACHE)
  # pch_defines, time_macros: needed to cache users of a precompiled header. The inode cache: a precompiled header has 140 MB, whose
  # hash each of its users would compute anew; so a build of known sources takes a sixth of the time.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1 "${CCACHE}")
endif()

add_library(lockstep_options INTERFACE)
target_compile_options(lockstep_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  -Wno-missing-field-initializers  # designated initializers leave the rest to their defaults
  # The same expression has the same bits in vector bodies and tails, and in every translation unit;
  # where a fused multiply-add is meant, it is written.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lockstep_options INTERFACE -fpch-preprocess)
endif()
# Several sources of a library together share headers and instances of templates, which halves the time of a build from nothing
# (lockstep_library). Names of unnamed namespaces must differ within a library.
option(LOCKSTEP_BATCHES "Compile eight sources of a library at a time" OFF)
# What one source names at the top, another may name in a function; a type of an unnamed namespace looks like a header's; g++ 12 sees
# overflows inside <string> where much is inlined.
target_compile_options(lockstep_options INTERFACE
  "$<$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_IN_BATCHES>>:-Wno-shadow;-Wshadow=local;-Wno-subobject-linkage;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict;-Wno-array-bounds>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(lockstep_options INTERFACE -Wthread-safety)
endif()
target_include_directories(lockstep_options INTERFACE "${CMAKE_SOURCE_DIR}")
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # g++ 12's false positives inside <string> and <variant> once sanitizers are on.
  add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  find_program(LOCKSTEP_GOLD ld.gold)
  if(LOCKSTEP_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_link_options(-fuse-ld=gold)  # links what is instrumented in half the time of the other
  endif()
  if(LOCKSTEP_SANITIZE MATCHES "thread")
    add_compile_options(-Wno-error=tsan)  # g++ warns of atomic_thread_fence in library headers
  endif()
endif()
