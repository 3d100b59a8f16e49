// The one matrix product of the runtime. Row-major fp32, single-threaded, oneDNN behind it.
#pragma once

#include <cstdint>

namespace lockstep::runtime {

struct GemmShape {
  int64_t m = 0;  // rows of C
  int64_t n = 0;  // columns of C
  int64_t k = 0;  // inner dimension
};

enum class Transpose : char { kNo, kYes };

// A matrix in memory: `leading` is the distance of two stored rows in elements.
struct ConstMatrix {
  const float* data = nullptr;
  int64_t leading = 0;
  Transpose transpose = Transpose::kNo;  // kYes: the stored matrix is used transposed
};

// C = A B + beta C.
//   a: [m, k] after transposition, b: [k, n] after transposition; not overlapping c.
//   c: [m, n] with row distance c_leading; read only if beta != 0; written.
// The bits of C depend on its operands, shape, transposes and leading distances and on the kind of
// processor (not on LOCKSTEP_ISA), never on addresses or on the number of threads or ranks.
// Throws std::runtime_error naming the shape if the library refuses the call; C is then
// unspecified.
void gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_leading);

}  // namespace lockstep::runtime
