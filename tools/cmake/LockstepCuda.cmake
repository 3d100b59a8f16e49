# nvcc and the CUDA libraries: the toolkit in LOCKSTEP_CUDA_TOOLKIT, which tools/setup.sh makes of wheels; one that NVIDIA's
# installers made will do. find_package(CUDAToolkit) is not called: that of CMake 3.25 fails with CUDA 13, and nothing needs it.
set(LOCKSTEP_CUDA_TOOLKIT "" CACHE PATH "CUDA toolkit 13.0, as tools/setup.sh print-cuda says it")
if(NOT EXISTS "${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc")
  message(FATAL_ERROR "no nvcc in LOCKSTEP_CUDA_TOOLKIT='${LOCKSTEP_CUDA_TOOLKIT}': run tools/setup.sh cuda and give what print-cuda says")
endif()
set(CMAKE_CUDA_COMPILER "${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc")
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # A100; RTX 30; RTX 40, L4, L40; H100, H200; B200; RTX 50. PTX of the oldest and of the newest serves all others from 8.0 on.
  set(CMAKE_CUDA_ARCHITECTURES 80 86-real 89-real 90a-real 100-real 120)
endif()
enable_language(CUDA)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # dep::cuda has the shared one, which LibTorch needs too
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 knows no C++20 of nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()

add_library(dep::cuda INTERFACE IMPORTED GLOBAL)
target_include_directories(dep::cuda SYSTEM INTERFACE "${LOCKSTEP_CUDA_TOOLKIT}/include" "${LOCKSTEP_CUDA_TOOLKIT}/include/cccl")
target_link_libraries(dep::cuda INTERFACE
  "${LOCKSTEP_CUDA_TOOLKIT}/lib64/libcublas.so" "${LOCKSTEP_CUDA_TOOLKIT}/lib64/libcudart.so")
# cuBLAS loads its other half from beside itself.
target_link_options(dep::cuda INTERFACE
  "LINKER:-rpath-link,${LOCKSTEP_CUDA_TOOLKIT}/lib64" "LINKER:-rpath,${LOCKSTEP_CUDA_TOOLKIT}/lib64")
