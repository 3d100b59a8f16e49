# dep::text_rust: the Rust library of runtime/text/rust, built by cargo with what its Cargo.lock names. Crates are compiled
# once per Cargo.lock, in the cache that tools/setup.sh fills, so a fresh clone compiles only our own sources.
find_program(LOCKSTEP_CARGO cargo HINTS "$ENV{HOME}/.cargo/bin")
set(_cache "$ENV{LOCKSTEP_CACHE}")
if(NOT _cache)
  set(_cache "$ENV{XDG_CACHE_HOME}")
  if(NOT _cache)
    set(_cache "$ENV{HOME}/.cache")
  endif()
  string(APPEND _cache "/lockstep")
endif()
set(_rust "${CMAKE_SOURCE_DIR}/runtime/text/rust")
file(SHA256 "${_rust}/Cargo.lock" _lock)
string(SUBSTRING "${_lock}" 0 16 _lock)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_rust}/Cargo.lock")
set(_crates "${_cache}/rust/${_lock}")
set(LOCKSTEP_TEXT_RUST "${CMAKE_BINARY_DIR}/rust/release/liblockstep_text_rust.a")
if(LOCKSTEP_CARGO)
  set(_command "${_rust}/build.sh" "${LOCKSTEP_CARGO}" "${_crates}" "${CMAKE_BINARY_DIR}/rust")
else()
  set(_command sh -c "echo 'cargo is missing: run tools/setup.sh build, which says how to get it' >&2; exit 1")
endif()
add_custom_command(OUTPUT "${LOCKSTEP_TEXT_RUST}"
  COMMAND ${_command}
  DEPENDS "${_rust}/build.sh" "${_rust}/Cargo.lock" "${_rust}/Cargo.toml" "${_rust}/src/generation.rs" "${_rust}/src/lib.rs"
    "${_rust}/src/python.rs" "${_rust}/src/rows.rs" "${_rust}/src/template.rs" "${_rust}/src/tokenizer.rs"
  COMMENT "Building liblockstep_text_rust.a with cargo" VERBATIM)
add_custom_target(lockstep_text_rust DEPENDS "${LOCKSTEP_TEXT_RUST}")
add_library(dep::text_rust STATIC IMPORTED GLOBAL)
set_target_properties(dep::text_rust PROPERTIES IMPORTED_LOCATION "${LOCKSTEP_TEXT_RUST}"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
add_dependencies(dep::text_rust lockstep_text_rust)
