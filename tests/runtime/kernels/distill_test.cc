// The loss of distillation against a plain double-precision reference. Tolerances: see
// elementwise_test.
#include <algorithm>
#include <span>

#include "runtime/kernels/elementwise.h"
#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

// What the teacher says of a token, over all of them, with logits over the temperature.
std::vector<double> warm_softmax(std::span<const float> logits, double temperature) {
  std::vector<double> p(logits.begin(), logits.end());
  const double top = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& value : p) sum += value = std::exp((value - top) / temperature);
  for (double& value : p) value /= sum;
  return p;
}

TEST(DistillTest, MixesTheLabelsWithWhatTheTeacherSays) {
  const int64_t rows = 4, vocab = 261;
  const double alpha = 0.3, temperature = 2.5;
  const std::vector<float> logits = random_floats(rows * vocab, 5, 4);
  const std::vector<float> told = random_floats(rows * vocab, 6, 4);
  const std::vector<int32_t> labels = {7, 260, -1, 0};
  std::vector<float> grads = logits, teacher = told;
  const double loss = distill(rows, vocab, labels.data(), {.alpha = 0.3F, .temperature = 2.5F},
                              0.25F, teacher.data(), grads.data());
  double want_loss = 0;
  std::vector<double> want(grads.size());
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[at(r)] < 0) continue;
    const auto row_of = [&](const std::vector<float>& all) {
      return std::span(all).subspan(at(r * vocab), at(vocab));
    };
    const std::vector<double> p = warm_softmax(row_of(logits), 1);
    const std::vector<double> warm = warm_softmax(row_of(logits), temperature);
    const std::vector<double> q = warm_softmax(row_of(told), temperature);
    double divergence = 0;
    for (int64_t i = 0; i < vocab; ++i) {
      divergence += q[at(i)] * std::log(q[at(i)] / warm[at(i)]);
      want[at(r * vocab + i)] = 0.25 * ((1 - alpha) * (p[at(i)] - (i == labels[at(r)] ? 1 : 0)) +
                                        alpha * temperature * (warm[at(i)] - q[at(i)]));
    }
    want_loss -= (1 - alpha) * std::log(p[at(labels[at(r)])]);
    want_loss += alpha * temperature * temperature * divergence;
  }
  EXPECT_NEAR(loss / want_loss, 1, 1e-6);
  EXPECT_LT(relative_max_error(grads, want), 1e-6);
}

}  // namespace
}  // namespace lockstep::runtime
