# Third-party targets of the build.
include(LockstepThirdParty)
include(LockstepRust)
find_package(GTest REQUIRED)
if(WITH_CUDA)
  include(LockstepCuda)
endif()
set(LOCKSTEP_LIBTORCH "no LibTorch")  # as lockstep-runtime --version says it
if(WITH_TORCH)
  set(LOCKSTEP_GLOO_DECLARATIONS "${CMAKE_SOURCE_DIR}/tools/gloo_declarations")
  include(LockstepTorch)
  set(LOCKSTEP_LIBTORCH "LibTorch ${_version}")
endif()
