// Measures the matrix products of a linear layer by the runtime's own gemm, and checks every value.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {

// Of a layer with weights W [size, size] on rows X [tokens, size]: X W', dY W and dY' X.
enum class LayerProduct { kForward, kInputGradient, kWeightGradient };
std::string_view to_string(LayerProduct product);

struct GemmBenchOptions {
  std::vector<DType> dtypes;
  std::vector<int64_t> sizes;
  int64_t num_tokens = 512;
  int64_t iterations = 10;
};

struct GemmLine {
  DType dtype = DType::kFp32;
  ProductPath path = ProductPath::kNative;
  LayerProduct product = LayerProduct::kForward;
  int64_t size = 0;
  double seconds = 0;     // of the fastest product
  int64_t num_wrong = 0;  // values that are not what exact arithmetic gives
};

// Every product of every dtype and size, on this thread: `iterations` of each are timed, after one
// that is not. Operands are whole numbers such that fp32 adds their products without rounding.
// `on_line` is told each line. Throws as gemm().
std::vector<GemmLine> bench_gemm(const GemmBenchOptions& options,
                                 const std::function<void(const GemmLine&)>& on_line);

// How many of the values of `c`, row-major, are not rows[i] * columns[j] * inner.
int64_t count_wrong_values(std::span<const float> rows, std::span<const float> columns, float inner,
                           std::span<const float> c);

// 2 num_tokens size^2 / seconds; 0 if that is not positive.
double flop_per_second(const GemmLine& line, int64_t num_tokens);

std::string render_gemm_header(const GemmBenchOptions& options);
std::string render_gemm_line(const GemmLine& line, int64_t num_tokens);
nlohmann::json gemm_json(const std::vector<GemmLine>& lines, const GemmBenchOptions& options);

}  // namespace lockstep::runtime
