# LibTorch: the wheel in LOCKSTEP_PYTHON_SITE, the site-packages folder that tools/setup.sh fills. Used by the build and
# by the installed package. LOCKSTEP_GLOO_DECLARATIONS: the folder of that name; after LockstepThirdParty.
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
target_include_directories(dep::torch SYSTEM INTERFACE "${LOCKSTEP_GLOO_DECLARATIONS}"
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
