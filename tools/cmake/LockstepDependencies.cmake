# Third-party targets. Debian packages are found in the system; LibTorch is the wheel in
# LOCKSTEP_PYTHON_SITE (the site-packages folder that tools/setup.sh fills).
find_package(Threads REQUIRED)

function(lockstep_system_library name header library package)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY ${library})
  if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${header} or lib${library} is missing: run tools/setup.sh build, or apt-get install ${package}")
  endif()
  add_library(dep::${name} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(dep::${name} INTERFACE "${${name}_LIBRARY}")
endfunction()

lockstep_system_library(yaml yaml-cpp/yaml.h yaml-cpp libyaml-cpp-dev)
lockstep_system_library(httplib httplib.h cpp-httplib libcpp-httplib-dev)
target_compile_definitions(dep::httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
target_link_libraries(dep::httplib INTERFACE ssl crypto)
lockstep_system_library(prometheus prometheus/registry.h prometheus-cpp-core prometheus-cpp-dev)
lockstep_system_library(civetweb civetweb.h civetweb libcivetweb-dev)
lockstep_system_library(dnnl dnnl.h dnnl libdnnl-dev)
lockstep_system_library(spdlog spdlog/spdlog.h spdlog libspdlog-dev)
lockstep_system_library(fmt fmt/format.h fmt libfmt-dev)
target_compile_definitions(dep::spdlog INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL SPDLOG_SHARED_LIB)
target_link_libraries(dep::spdlog INTERFACE dep::fmt)
find_path(NLOHMANN_INCLUDE nlohmann/json.hpp)
find_path(CLI11_INCLUDE CLI/CLI.hpp)
if(NOT NLOHMANN_INCLUDE OR NOT CLI11_INCLUDE)
  message(FATAL_ERROR "nlohmann/json.hpp or CLI/CLI.hpp is missing: run tools/setup.sh build, or apt-get install nlohmann-json3-dev libcli11-dev")
endif()
find_package(GTest REQUIRED)

if(WITH_TORCH)
  set(LOCKSTEP_PYTHON_SITE "" CACHE PATH "site-packages that holds torch/ and nvidia/")
  set(_torch "${LOCKSTEP_PYTHON_SITE}/torch")
  if(NOT EXISTS "${_torch}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "no LibTorch in LOCKSTEP_PYTHON_SITE='${LOCKSTEP_PYTHON_SITE}': run `make build`, which sets it up, or configure the no-torch preset")
  endif()
  file(STRINGS "${_torch}/include/torch/headeronly/version.h" _version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX MATCHALL "[0-9]+" _version "${_version}")
  list(JOIN _version "." _version)
  if(NOT _version VERSION_EQUAL "2.11.0")
    message(FATAL_ERROR "torch 2.11.0 expected in ${LOCKSTEP_PYTHON_SITE}, ${_version} found: run tools/setup.sh build")
  endif()
  foreach(lib c10 torch_cpu)
    add_library(torchwheel::${lib} SHARED IMPORTED GLOBAL)
    set_target_properties(torchwheel::${lib} PROPERTIES
      IMPORTED_LOCATION "${_torch}/lib/lib${lib}.so" IMPORTED_SONAME "lib${lib}.so")
  endforeach()
  # torch_cpu and c10 only: a program that needs no GPU never loads the CUDA libraries.
  add_library(dep::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(dep::torch SYSTEM INTERFACE "${CMAKE_SOURCE_DIR}/tools/gloo_declarations"
    "${_torch}/include" "${_torch}/include/torch/csrc/api/include")
  target_compile_definitions(dep::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  target_link_libraries(dep::torch INTERFACE torchwheel::torch_cpu torchwheel::c10)
  # torch_cpu holds a newer oneDNN. About 70 weak C++ symbols exist in both, the first library loaded
  # wins, and the older oneDNN fails with the newer's ("unimplemented"): libdnnl must come first, so it
  # is an option, which stands before all libraries.
  target_link_options(dep::torch INTERFACE "LINKER:--push-state,--no-as-needed" "${dnnl_LIBRARY}" "LINKER:--pop-state")
  target_link_options(dep::torch INTERFACE
    "LINKER:-rpath-link,${LOCKSTEP_PYTHON_SITE}/nvidia/cu13/lib"
    "LINKER:-rpath,${_torch}/lib" "LINKER:-rpath,${LOCKSTEP_PYTHON_SITE}/nvidia/cu13/lib")
endif()
