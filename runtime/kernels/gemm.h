// The one matrix product of the runtime: row-major, fp32 sums; single-threaded with oneDNN behind
// it on the processor, cuBLAS on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime {

struct GemmShape {
  int64_t m = 0;  // rows of C
  int64_t n = 0;  // columns of C
  int64_t k = 0;  // inner dimension
};

enum class Transpose : char { kNo, kYes };

// A matrix in memory: `leading` is the distance of two stored rows in elements.
struct ConstMatrix {
  ConstValues data;
  int64_t leading = 0;
  Transpose transpose = Transpose::kNo;  // kYes: the stored matrix is used transposed
};

// C = A B + beta C.
//   a: [m, k] after transposition, b: [k, n] after transposition; of one type, not overlapping c.
//   c: [m, n] with row distance c_leading; read only if beta != 0; written.
// Operands of 16 bits are multiplied exactly and added up in fp32, on either path below.
// The bits of C depend on its operands, their type and path, shape, transposes and leading
// distances and on the kind of processor (not on LOCKSTEP_ISA), never on addresses or on the number
// of threads or ranks.
// Throws std::invalid_argument if the operands are of two types, std::bad_alloc if memory is used
// up, std::runtime_error naming the shape if the library refuses the call; C is then unspecified.
void gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_leading);
// gemm() where the processor is the device.
void processor_gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
                    int64_t c_leading);

// Note [Paths of a product]
// kNative: the library multiplies the operands as they are stored. kWidened: they are copied to
// fp32, which is exact, and multiplied by sgemm. The products and the type of the sums are the
// same; the order of the sums, and so the last bits, are not. fp32 has only kNative. bf16 is native
// on processors with bf16 instructions; on others oneDNN 2.6 has none (AVX2) or imitates them at a
// third of the speed of kWidened (AVX-512 without bf16: 38 against 112 GFLOP/s). fp16 is widened
// everywhere: oneDNN 2.6 has no fp16 on x86.
enum class ProductPath : char { kNative, kWidened };
std::string to_string(ProductPath path);  // "native", "widened"

// The path of products of `dtype` in this process: what the note says, or for 16-bit types the one
// that the environment variable LOCKSTEP_PRODUCTS names; decided at the first call.
// Throws std::runtime_error (as gemm does) if that one is not there.
ProductPath product_path(DType dtype);

// The paths that work here, the usual one first; and gemm() on one of them. For tests.
std::vector<ProductPath> supported_paths(DType dtype);
void gemm_on(ProductPath path, const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta,
             float* c, int64_t c_leading);

}  // namespace lockstep::runtime
