# Third-party targets of the build.
include(LockstepThirdParty)
include(LockstepRust)
find_package(GTest REQUIRED)
if(WITH_TORCH)
  set(LOCKSTEP_GLOO_DECLARATIONS "${CMAKE_SOURCE_DIR}/tools/gloo_declarations")
  include(LockstepTorch)
endif()
