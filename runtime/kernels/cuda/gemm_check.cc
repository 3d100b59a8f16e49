#include "runtime/kernels/cuda/gemm_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/kernels/cuda/cuda_gemm.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

constexpr GemmShape kShape = {.m = 67, .n = 45, .k = 131};

// Small whole numbers and halves of them, which every type holds.
float element(int64_t index) {
  return static_cast<float>(index * index % 23 - 11) * 0.5F;
}

// An operand in shared memory, [rows, cols] as it is stored.
class StoredMatrix {
 public:
  StoredMatrix(const SharedMemory& memory, DType dtype, int64_t rows, int64_t cols)
      : memory_(memory), dtype_(dtype), cols_(cols), wide_(static_cast<size_t>(rows * cols)) {
    for (size_t i = 0; i < wide_.size(); ++i) wide_[i] = element(static_cast<int64_t>(i));
    data_ = memory.allocate(wide_.size() * sizeof(float));
    narrow(rows * cols, wide_.data(), {dtype, data_});
  }
  ~StoredMatrix() { memory_.release(data_); }
  StoredMatrix(const StoredMatrix&) = delete;
  StoredMatrix& operator=(const StoredMatrix&) = delete;

  ConstMatrix matrix(Transpose transpose) const { return {{dtype_, data_}, cols_, transpose}; }
  double at(int64_t row, int64_t col) const {
    return static_cast<double>(wide_[static_cast<size_t>(row * cols_ + col)]);
  }

 private:
  const SharedMemory& memory_;
  DType dtype_;
  int64_t cols_;
  std::vector<float> wide_;
  void* data_ = nullptr;
};

StoredMatrix operand(const SharedMemory& memory, DType dtype, int64_t rows, int64_t cols,
                     Transpose transpose) {
  if (transpose == Transpose::kYes) std::swap(rows, cols);
  return StoredMatrix(memory, dtype, rows, cols);
}

// 1 + A B as the device has it.
std::vector<float> product(const SharedMemory& memory, ConstMatrix a, ConstMatrix b) {
  const auto num_elems = static_cast<size_t>(kShape.m * kShape.n);
  auto* const c = static_cast<float*>(memory.allocate(num_elems * sizeof(float)));
  std::fill_n(c, num_elems, 1.0F);
  cuda_gemm(kShape, a, b, 1, c, kShape.n);
  memory.wait_for_kernels();
  std::vector<float> result(c, c + num_elems);
  memory.release(c);
  return result;
}

// The largest difference to 1 + A B in fp64, as a share of its largest element; -1: two runs
// differ.
double error_of(const SharedMemory& memory, DType dtype, Transpose of_a, Transpose of_b) {
  const StoredMatrix a = operand(memory, dtype, kShape.m, kShape.k, of_a);
  const StoredMatrix b = operand(memory, dtype, kShape.k, kShape.n, of_b);
  const std::vector<float> got = product(memory, a.matrix(of_a), b.matrix(of_b));
  if (got != product(memory, a.matrix(of_a), b.matrix(of_b))) return -1;
  double error = 0;
  double size = 0;
  for (int64_t i = 0; i < kShape.m; ++i) {
    for (int64_t j = 0; j < kShape.n; ++j) {
      double sum = 1;
      for (int64_t k = 0; k < kShape.k; ++k) {
        sum += (of_a == Transpose::kYes ? a.at(k, i) : a.at(i, k)) *
               (of_b == Transpose::kYes ? b.at(j, k) : b.at(k, j));
      }
      const float value = got[static_cast<size_t>(i * kShape.n + j)];
      error = std::max(error, std::abs(static_cast<double>(value) - sum));
      size = std::max(size, std::abs(sum));
    }
  }
  return error / size;
}

}  // namespace

KernelVerdict check_gemm(const SharedMemory& memory) {
  double worst = 0;
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const Transpose of_a : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose of_b : {Transpose::kNo, Transpose::kYes}) {
        const double error = error_of(memory, dtype, of_a, of_b);
        if (error < 0) return {"products", false, "other bits when repeated"};
        worst = std::max(worst, error);
      }
    }
  }
  return {"products", worst <= 1e-5, "off by " + std::to_string(worst)};
}

}  // namespace lockstep::runtime
