// Angles of the rotary embedding: what needs no vector instructions.
#include <cmath>
#include <vector>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

// Frequencies and angles are rounded to fp32 as Transformers' LlamaRotaryEmbedding rounds them:
// over long sequences that rounding is larger than ours, and a checkpoint has been trained with it.
void rotary_frequencies(int64_t rotary_dim, double theta, float* frequencies) {
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    frequencies[i] = 1.0F / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
}

void rotary_table(int64_t seq, int64_t rotary_dim, const float* frequencies, float factor,
                  float* table) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t t = 0; t < seq; ++t) {
      const float angle = static_cast<float>(t) * frequencies[i];
      float* const row = table + t * rotary_dim;
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * factor;
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * factor;
    }
  }
}

void rotary_table(int64_t seq, int64_t head_dim, double theta, float* table) {
  std::vector<float> frequencies(static_cast<size_t>(head_dim / 2));
  rotary_frequencies(head_dim, theta, frequencies.data());
  rotary_table(seq, head_dim, frequencies.data(), 1.0F, table);
}

}  // namespace lockstep::runtime
