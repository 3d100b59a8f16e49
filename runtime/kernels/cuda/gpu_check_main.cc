// lockstep-gpu-check: which GPUs the CUDA build can use here, and whether its kernels compute on
// one of them what they compute on the processor.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <cuda_runtime.h>

#include "runtime/common/exit_code.h"
#include "runtime/kernels/cuda/cuda_driver.h"
#include "runtime/kernels/cuda/cuda_kernels.h"
#include "runtime/kernels/cuda/gemm_check.h"
#include "runtime/kernels/cuda/kernel_check.h"
#include "runtime/kernels/cuda/stream.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

constexpr char kProgram[] = "lockstep-gpu-check";

int refuse(const common::Error& error) {
  std::cerr << kProgram << ": " << error.message << "; " << error.hint << "\n";
  return static_cast<int>(ExitCode::kNoDevice);
}

void* allocate_managed(size_t num_bytes) {
  void* memory = nullptr;
  cuda::check_cuda(cudaMallocManaged(&memory, num_bytes), "managed memory");
  return memory;
}

void release_managed(void* memory) {
  cudaFree(memory);
}

int check_device(int index) {
  cuda::check_cuda(cudaSetDevice(index), "the device");
  const SharedMemory memory{.allocate = &allocate_managed,
                            .release = &release_managed,
                            .wait_for_kernels = &cuda::wait_for_kernels};
  std::vector<KernelVerdict> verdicts =
      check_kernels(cuda_kernels(), supported_kernels().back(), memory);
  verdicts.push_back(check_gemm(memory));
  bool are_right = true;
  for (const KernelVerdict& verdict : verdicts) {
    std::cout << "kernels " << verdict.kernel << ": " << (verdict.is_right ? "right" : "WRONG")
              << ", " << verdict.found << "\n";
    are_right = are_right && verdict.is_right;
  }
  return static_cast<int>(are_right ? ExitCode::kSucceeded : ExitCode::kInternal);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Lists the GPUs that the CUDA build can use, and runs its kernels on one of them beside "
      "those\n"
      "of the processor. Exit status 0: all agree; 86: no GPU can be used; 70: a kernel is wrong.",
      kProgram);
  int index = 0;
  std::string library = kCudaDriverLibrary;
  app.add_option("--device", index, "the one to compute on")->capture_default_str();
  app.add_option("--driver", library, "the driver's library")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kInvalidConfig);
  }
  const Result<std::vector<CudaDevice>> devices = usable_devices(ask_cuda_driver(library));
  if (!devices) return refuse(devices.error());
  for (size_t i = 0; i < devices->size(); ++i) {
    const CudaDevice& device = devices.value()[i];
    std::cout << "device " << i << ": " << device.name << ", compute capability " << device.major
              << "." << device.minor << ", " << (device.memory_bytes >> 20U) << " MiB\n";
  }
  const Result<CudaDevice> chosen = device_of_rank(devices.value(), index);
  if (!chosen) return refuse(chosen.error());
  return check_device(index);
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  try {
    return lockstep::runtime::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", lockstep::runtime::kProgram, error.what());
    return static_cast<int>(lockstep::common::ExitCode::kInternal);
  }
}
