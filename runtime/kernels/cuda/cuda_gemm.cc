#include "runtime/kernels/cuda/cuda_gemm.h"

#include <stdexcept>
#include <string>

#include <cublas_v2.h>

#include "runtime/kernels/cuda/cublas_call.h"
#include "runtime/kernels/cuda/stream.h"

namespace lockstep::runtime {
namespace {

// What cuBLAS recommends for the newest devices. Part of the arithmetic: more room, other sums.
constexpr size_t kWorkspaceBytes = size_t{32} << 20U;

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw cuda::OutOfDeviceMemory();
  throw std::runtime_error(std::string("cuBLAS refuses ") + what + ": " +
                           cublasGetStatusString(status));
}

cublasHandle_t make_handle() {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "to start");
  check(cublasSetStream(handle, cuda::device_stream()), "the stream");
  void* workspace = nullptr;
  cuda::check_cuda(cudaMalloc(&workspace, kWorkspaceBytes), "the workspace of products");
  check(cublasSetWorkspace(handle, workspace, kWorkspaceBytes), "the workspace");
  const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)), "the precision of sums");
  return handle;
}

cublasHandle_t cublas() {
  static cublasHandle_t handle = make_handle();  // lives as long as the process
  return handle;
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kFp32 ? CUDA_R_32F : dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_16F;
}

cublasOperation_t operation(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

void start_cuda_gemm() {
  cublas();
}

void cuda_gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
               int64_t c_leading) {
  if (shape.m == 0 || shape.n == 0) return;
  if (a.data.dtype != b.data.dtype) {
    throw std::invalid_argument("product of " + std::string(to_string(a.data.dtype)) + " and " +
                                std::string(to_string(b.data.dtype)) + " operands");
  }
  const CublasCall call = cublas_call(shape, a, b);
  const float one = 1;
  check(cublasGemmEx_64(cublas(), operation(call.first.transpose), operation(call.second.transpose),
                        call.shape.m, call.shape.n, call.shape.k, &one, call.first.data.data,
                        type_of(call.first.data.dtype), call.first.leading, call.second.data.data,
                        type_of(call.second.data.dtype), call.second.leading, &beta, c, CUDA_R_32F,
                        c_leading, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "a product");
}

}  // namespace lockstep::runtime
