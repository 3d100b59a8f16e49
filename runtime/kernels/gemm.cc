#include "runtime/kernels/gemm.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <dnnl.h>

// From the OpenMP runtime that oneDNN links; declared here because clang brings no omp.h of its
// own.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int num_threads);

namespace lockstep::runtime {
namespace {

// Limits OpenMP to the calling thread while it lives. The setting belongs to this thread only, so
// nothing else in the process notices.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  const int before_;
};

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

}  // namespace

// dnnl_sgemm and not a matmul primitive: equal speed over the shapes of a training step (within 5 %
// on average, AVX-512), beta for free, and no cache of compiled primitives to own.
void gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_leading) {
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) return scale_in_place(shape, beta, c, c_leading);
  const OneOpenMpThread one_thread;
  const dnnl_status_t status =
      dnnl_sgemm(letter(a.transpose), letter(b.transpose), shape.m, shape.n, shape.k, 1.0F, a.data,
                 a.leading, b.data, b.leading, beta, c, c_leading);
  if (status != dnnl_success) {
    throw std::runtime_error("gemm refused with oneDNN status " + std::to_string(status) + ": " +
                             describe(shape, a, b, c_leading));
  }
}

}  // namespace lockstep::runtime
