# The runtime as an installed package: find_package(lockstep CONFIG REQUIRED), then link lockstep::runtime.
# examples/custom_loop is built against it.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(_cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
set_target_properties(lockstep_custom PROPERTIES EXPORT_NAME runtime)
target_compile_features(lockstep_common INTERFACE cxx_std_20)
target_include_directories(lockstep_common INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lockstep>)
install(TARGETS lockstep_checkpoint lockstep_comm lockstep_common lockstep_custom lockstep_data lockstep_hub
    lockstep_kernels lockstep_model lockstep_offload lockstep_optim lockstep_parallel lockstep_text lockstep_tracking lockstep_train
  EXPORT lockstepTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/lockstep")
install(TARGETS lockstep_gloo LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")  # where lockstep_comm tells the loader to look
install(FILES "${LOCKSTEP_TEXT_RUST}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/lockstep")
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION "${_cmake_folder}")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/runtime" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep"
  FILES_MATCHING PATTERN "*.h" PATTERN isa EXCLUDE)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/tools/gloo_declarations" DESTINATION "${_cmake_folder}")

configure_file("${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in" lockstepConfig.cmake @ONLY)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/LockstepThirdParty.cmake" "${CMAKE_CURRENT_LIST_DIR}/LockstepTorch.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake"
  DESTINATION "${_cmake_folder}")
