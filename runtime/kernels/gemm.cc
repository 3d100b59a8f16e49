#include "runtime/kernels/gemm.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <dnnl.h>

#include "runtime/kernels/device.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/matmul.h"
#include "runtime/kernels/one_openmp_thread.h"

namespace lockstep::runtime {
namespace {

char letter(Transpose transpose) {
  return transpose == Transpose::kYes ? 'T' : 'N';
}

std::string describe(const GemmShape& shape, ConstMatrix a, ConstMatrix b, int64_t c_leading) {
  const auto matrix = [](const char* name, int64_t rows, int64_t cols, char mode, int64_t leading) {
    return std::string(name) + " [" + std::to_string(rows) + ", " + std::to_string(cols) + "] " +
           mode + " leading " + std::to_string(leading);
  };
  return matrix("A", shape.m, shape.k, letter(a.transpose), a.leading) + ", " +
         matrix("B", shape.k, shape.n, letter(b.transpose), b.leading) + ", " +
         matrix("C", shape.m, shape.n, 'N', c_leading);
}

// A product over no elements: C = beta C.
void scale_in_place(const GemmShape& shape, float beta, float* c, int64_t c_leading) {
  for (int64_t i = 0; i < shape.m; ++i) {
    float* const row = c + i * c_leading;
    if (beta == 0) std::fill(row, row + shape.n, 0.0F);
    if (beta != 0) std::for_each(row, row + shape.n, [beta](float& x) { x *= beta; });
  }
}

// dnnl_sgemm and not a matmul primitive: equal speed over the shapes of a training step (within 5 %
// on average, AVX-512), beta for free, and no cache of compiled primitives to own.
int sgemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_leading) {
  const OneOpenMpThread one_thread;
  return dnnl_sgemm(letter(a.transpose), letter(b.transpose), shape.m, shape.n, shape.k, 1.0F,
                    static_cast<const float*>(a.data.data), a.leading,
                    static_cast<const float*>(b.data.data), b.leading, beta, c, c_leading);
}

// The matrix of `rows` x `cols` (after transposition) as floats in `wide`, rows without gaps.
ConstMatrix widened(ConstMatrix from, int64_t rows, int64_t cols, std::vector<float>& wide) {
  if (from.transpose == Transpose::kYes) std::swap(rows, cols);
  wide.resize(static_cast<size_t>(rows * cols));
  for (int64_t row = 0; row < rows; ++row) {
    chosen_kernels().widen(cols, from.data.from(row * from.leading), wide.data() + row * cols);
  }
  return {wide.data(), cols, from.transpose};
}

int widened_product(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
                    int64_t c_leading) {
  // Kept between calls: a step repeats the same few sizes.
  thread_local std::vector<float> wide_a;
  thread_local std::vector<float> wide_b;
  return sgemm(shape, widened(a, shape.m, shape.k, wide_a), widened(b, shape.k, shape.n, wide_b),
               beta, c, c_leading);
}

}  // namespace

void gemm_on(ProductPath path, const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta,
             float* c, int64_t c_leading) {
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) return scale_in_place(shape, beta, c, c_leading);
  if (a.data.dtype != b.data.dtype) {
    throw std::invalid_argument("gemm of " + std::string(to_string(a.data.dtype)) + " and " +
                                std::string(to_string(b.data.dtype)) + " operands");
  }
  // sgemm refuses rows that overlap; so do the other paths.
  const auto overlaps = [](ConstMatrix matrix, int64_t rows, int64_t cols) {
    return matrix.leading < (matrix.transpose == Transpose::kYes ? rows : cols);
  };
  const auto product = a.data.dtype == DType::kFp32   ? &sgemm
                       : path == ProductPath::kNative ? &matmul
                                                      : &widened_product;
  const bool refused =
      overlaps(a, shape.m, shape.k) || overlaps(b, shape.k, shape.n) || c_leading < shape.n;
  const int status = refused ? dnnl_invalid_arguments : product(shape, a, b, beta, c, c_leading);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw std::runtime_error("gemm of " + std::string(to_string(a.data.dtype)) +
                             " refused with oneDNN status " + std::to_string(status) + ": " +
                             describe(shape, a, b, c_leading));
  }
}

void gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_leading) {
  device().gemm(shape, a, b, beta, c, c_leading);
}

void processor_gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
                    int64_t c_leading) {
  gemm_on(product_path(a.data.dtype), shape, a, b, beta, c, c_leading);
}

}  // namespace lockstep::runtime
