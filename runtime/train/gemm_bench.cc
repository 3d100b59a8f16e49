#include "runtime/train/gemm_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using Factor = std::vector<float>;

constexpr std::array kProducts = {LayerProduct::kForward, LayerProduct::kInputGradient,
                                  LayerProduct::kWeightGradient};

// -1, 0 and 1 in an order of its own for every `seed`.
Factor factor(int64_t num_elems, int64_t seed) {
  Factor values(static_cast<std::size_t>(num_elems));
  for (int64_t i = 0; i < num_elems; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>((i * 7 + i / 13 + seed) % 3 - 1);
  }
  return values;
}

// The matrix rows[i] * columns[j]: what a product of two such must be is known at once.
struct Outer {
  Factor rows, columns;
  DType dtype = DType::kFp32;
  std::vector<std::byte> stored;

  Outer(Factor of_rows, Factor of_columns, DType type)
      : rows(std::move(of_rows)), columns(std::move(of_columns)), dtype(type) {
    std::vector<float> exact;
    exact.reserve(rows.size() * columns.size());
    for (const float row : rows) {
      for (const float column : columns) exact.push_back(row * column);
    }
    stored.resize(exact.size() * static_cast<std::size_t>(common::elem_bytes(dtype)));
    narrow(static_cast<int64_t>(exact.size()), exact.data(), {dtype, stored.data()});
  }
  ConstMatrix matrix(Transpose transpose) const {
    return {.data = {dtype, stored.data()},
            .leading = static_cast<int64_t>(columns.size()),
            .transpose = transpose};
  }
};

// A B, of which the inner factors come to the number `inner`.
struct Product {
  GemmShape shape{};
  ConstMatrix a{}, b{};
  const Factor* rows = nullptr;
  const Factor* columns = nullptr;
  float inner = 0;
};

Product product_of(const Outer& a, Transpose transpose_a, const Outer& b, Transpose transpose_b) {
  const bool turns_a = transpose_a == Transpose::kYes;
  const bool turns_b = transpose_b == Transpose::kYes;
  const Factor& inner_a = turns_a ? a.rows : a.columns;
  const Factor& inner_b = turns_b ? b.columns : b.rows;
  Product product{.a = a.matrix(transpose_a), .b = b.matrix(transpose_b)};
  product.rows = turns_a ? &a.columns : &a.rows;
  product.columns = turns_b ? &b.rows : &b.columns;
  product.inner = std::inner_product(inner_a.begin(), inner_a.end(), inner_b.begin(), 0.0F);
  product.shape = {.m = static_cast<int64_t>(product.rows->size()),
                   .n = static_cast<int64_t>(product.columns->size()),
                   .k = static_cast<int64_t>(inner_a.size())};
  return product;
}

// A layer's rows, weights and output gradients.
struct Layer {
  Outer x, weights, output_gradients;

  Product product(LayerProduct which) const {
    switch (which) {
      case LayerProduct::kForward:
        return product_of(x, Transpose::kNo, weights, Transpose::kYes);
      case LayerProduct::kInputGradient:
        return product_of(output_gradients, Transpose::kNo, weights, Transpose::kNo);
      case LayerProduct::kWeightGradient:
        return product_of(output_gradients, Transpose::kYes, x, Transpose::kNo);
    }
    return {};
  }
};

// Seconds of the fastest of `iterations` products, after one that is not timed.
double time_product(const Product& product, int64_t iterations, std::vector<float>& c) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i <= iterations; ++i) {
    const Clock::time_point begin = Clock::now();
    gemm(product.shape, product.a, product.b, 0, c.data(), product.shape.n);
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (i > 0) fastest = std::min(fastest, took.count());
  }
  return fastest;
}

}  // namespace

std::string_view to_string(LayerProduct product) {
  switch (product) {
    case LayerProduct::kForward:
      return "forward";
    case LayerProduct::kInputGradient:
      return "input-gradient";
    case LayerProduct::kWeightGradient:
      return "weight-gradient";
  }
  return "";
}

std::vector<GemmLine> bench_gemm(const GemmBenchOptions& options,
                                 const std::function<void(const GemmLine&)>& on_line) {
  std::vector<GemmLine> lines;
  for (const DType dtype : options.dtypes) {
    for (const int64_t size : options.sizes) {
      const Layer layer = {
          .x = Outer(factor(options.num_tokens, 0), factor(size, 1), dtype),
          .weights = Outer(factor(size, 2), factor(size, 4), dtype),
          .output_gradients = Outer(factor(options.num_tokens, 5), factor(size, 6), dtype)};
      for (const LayerProduct which : kProducts) {
        const Product product = layer.product(which);
        std::vector<float> c(product.rows->size() * product.columns->size(),
                             std::numeric_limits<float>::quiet_NaN());
        GemmLine line{.dtype = dtype,
                      .path = product_path(dtype),
                      .product = which,
                      .size = size,
                      .seconds = time_product(product, options.iterations, c)};
        line.num_wrong = count_wrong_values(*product.rows, *product.columns, product.inner, c);
        on_line(lines.emplace_back(line));
      }
    }
  }
  return lines;
}

int64_t count_wrong_values(std::span<const float> rows, std::span<const float> columns, float inner,
                           std::span<const float> c) {
  int64_t num_wrong = 0;
  auto value = c.begin();
  for (const float row : rows) {
    for (const float column : columns) num_wrong += *value++ == row * column * inner ? 0 : 1;
  }
  return num_wrong;
}

double flop_per_second(const GemmLine& line, int64_t num_tokens) {
  const auto flop = 2.0 * static_cast<double>(num_tokens) * static_cast<double>(line.size) *
                    static_cast<double>(line.size);
  return line.seconds > 0 ? flop / line.seconds : 0;
}

std::string render_gemm_header(const GemmBenchOptions& options) {
  std::array<char, 160> columns{};
  std::snprintf(columns.data(), columns.size(), "%-6s %-8s %-16s %8s %12s %12s %8s\n", "dtype",
                "path", "product", "size", "time (us)", "GFLOP/s", "#wrong");
  return "# one thread, " + std::to_string(options.num_tokens) +
         " tokens, weights [size, size]; the fastest of " + std::to_string(options.iterations) +
         "\n" + columns.data();
}

std::string render_gemm_line(const GemmLine& line, int64_t num_tokens) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "%-6s %-8s %-16s %8lld %12.1f %12.1f %8lld\n",
                std::string(common::to_string(line.dtype)).c_str(), to_string(line.path).c_str(),
                std::string(to_string(line.product)).c_str(), static_cast<long long>(line.size),
                line.seconds * 1e6, flop_per_second(line, num_tokens) / 1e9,
                static_cast<long long>(line.num_wrong));
  return text.data();
}

nlohmann::json gemm_json(const std::vector<GemmLine>& lines, const GemmBenchOptions& options) {
  nlohmann::json results = nlohmann::json::array();
  for (const GemmLine& line : lines) {
    results.push_back({{"dtype", common::to_string(line.dtype)},
                       {"path", to_string(line.path)},
                       {"product", to_string(line.product)},
                       {"size", line.size},
                       {"seconds", line.seconds},
                       {"flopPerSecond", flop_per_second(line, options.num_tokens)},
                       {"wrong", line.num_wrong}});
  }
  return {{"tokens", options.num_tokens},
          {"iterations", options.iterations},
          {"results", std::move(results)}};
}

}  // namespace lockstep::runtime
