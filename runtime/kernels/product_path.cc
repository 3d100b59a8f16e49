// Which path the products of a type take: see Note [Paths of a product].
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "runtime/kernels/gemm.h"
#include "runtime/kernels/matmul.h"

namespace lockstep::runtime {
namespace {

ProductPath choose_path(DType dtype) {
  const std::vector<ProductPath> supported = supported_paths(dtype);
  const char* const wanted = std::getenv("LOCKSTEP_PRODUCTS");
  if (wanted == nullptr || *wanted == '\0') return supported.front();
  std::string names;
  for (const ProductPath path : supported) {
    if (to_string(path) == wanted) return path;
    names += std::string(names.empty() ? "" : ", ") + to_string(path);
  }
  throw std::runtime_error("LOCKSTEP_PRODUCTS is '" + std::string(wanted) + "', but products of " +
                           std::string(to_string(dtype)) + " take only: " + names);
}

}  // namespace

std::string to_string(ProductPath path) {
  return path == ProductPath::kNative ? "native" : "widened";
}

std::vector<ProductPath> supported_paths(DType dtype) {
  if (dtype == DType::kFp32) return {ProductPath::kNative};
  if (!matmul_takes(dtype)) return {ProductPath::kWidened};
  if (matmul_is_fast(dtype)) return {ProductPath::kNative, ProductPath::kWidened};
  return {ProductPath::kWidened, ProductPath::kNative};
}

ProductPath product_path(DType dtype) {
  // One at a time: what fp16 lacks must not fail a run in bf16.
  if (dtype == DType::kFp32) return ProductPath::kNative;
  if (dtype == DType::kBf16) {
    static const ProductPath bf16 = choose_path(DType::kBf16);
    return bf16;
  }
  static const ProductPath fp16 = choose_path(DType::kFp16);
  return fp16;
}

}  // namespace lockstep::runtime
