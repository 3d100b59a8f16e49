#include "runtime/kernels/cuda/kernel_check.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/runtime/kernels/tested_kernels.h"

namespace lockstep::runtime {
namespace {

void* allocate(size_t num_bytes) {
  return std::malloc(num_bytes);
}
const SharedMemory kHostMemory = {
    .allocate = &allocate, .release = &std::free, .wait_for_kernels = [] {}};

TEST(KernelCheckTest, FindsTheKernelsOfAGpuRightWhereTheHostPlaysItsThreads) {
  for (const KernelTable& table : tested_kernels()) {
    for (const KernelVerdict& verdict :
         check_kernels(table, supported_kernels().back(), kHostMemory)) {
      EXPECT_TRUE(verdict.is_right) << table.isa << " " << verdict.kernel << " " << verdict.found;
      const bool has_tolerance =
          verdict.kernel == "attention" || verdict.kernel == "sums over rows";
      EXPECT_TRUE(has_tolerance || verdict.found == "same bits") << verdict.kernel;
    }
  }
}

// An element too few, another rounding, an element that is not written.
TEST(KernelCheckTest, NamesAKernelThatIsWrong) {
  KernelTable broken = supported_kernels().back();
  const KernelTable right = broken;
  broken.adamw = [](const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
                    float* v) { adamw(step, n - 1, gradient, weight, m, v); };
  broken.swiglu_forward = [](int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
    swiglu_forward(rows, ff, gate_up, out);
    static_cast<float*>(out.data)[0] *= 1.000001F;
  };
  broken.attention_backward = [](const AttentionShape&, ConstValues, ConstValues, const float*,
                                 const float*, float*, float*) {};
  std::vector<std::string> wrong;
  for (const KernelVerdict& verdict : check_kernels(broken, right, kHostMemory)) {
    if (!verdict.is_right) wrong.push_back(verdict.kernel);
  }
  EXPECT_THAT(wrong, testing::ElementsAre("activations", "optimizer", "attention"));
}

}  // namespace
}  // namespace lockstep::runtime
