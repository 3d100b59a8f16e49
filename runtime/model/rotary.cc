#include "runtime/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

using common::RopeScaling;
using Type = RopeScaling::Type;

// Long waves are stretched by the factor, short ones kept, those between blended.
void scale_llama3(const RopeScaling& scaling, std::vector<float>& frequencies) {
  const auto length = static_cast<double>(scaling.original_max_position_embeddings);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto span = static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const auto longest = static_cast<float>(length / scaling.low_freq_factor);
  const auto shortest = static_cast<float>(length / scaling.high_freq_factor);
  for (float& frequency : frequencies) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave > longest) {
      frequency /= factor;
    } else if (wave >= shortest) {
      const float smooth = (static_cast<float>(length) / wave - low) / span;
      frequency = (1.0F - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// Dimension whose wave turns `rotations` times within the length.
double yarn_dimension(double rotations, double length, double dim, double theta) {
  return dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

// Fast dimensions are kept, slow ones stretched by the factor, with a ramp between.
void scale_yarn(const RopeScaling& scaling, double theta, int64_t dim,
                std::vector<float>& frequencies) {
  const auto length = static_cast<double>(scaling.original_max_position_embeddings);
  double low = yarn_dimension(scaling.beta_fast, length, static_cast<double>(dim), theta);
  double high = yarn_dimension(scaling.beta_slow, length, static_cast<double>(dim), theta);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float place =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(place, 0.0F, 1.0F);
    const float stretched = 1.0F / (static_cast<float>(scaling.factor) * (1.0F / frequencies[i]));
    frequencies[i] = stretched * (1.0F - kept) + frequencies[i] * kept;
  }
}

}  // namespace

std::vector<float> rotary_values(const common::ModelConfig& config, int64_t seq, bool has_window) {
  const bool is_local = has_window && config.rope_local_theta > 0;
  const double theta = is_local ? config.rope_local_theta : config.rope_theta;
  const RopeScaling scaling = is_local ? RopeScaling{} : config.rope_scaling;
  const int64_t dim = config.rotary_dim();
  std::vector<float> frequencies(static_cast<size_t>(dim / 2));
  rotary_frequencies(dim, theta, frequencies.data());
  if (scaling.type == Type::kLinear) {
    for (float& frequency : frequencies) frequency /= static_cast<float>(scaling.factor);
  }
  if (scaling.type == Type::kLlama3) scale_llama3(scaling, frequencies);
  if (scaling.type == Type::kYarn) scale_yarn(scaling, theta, dim, frequencies);
  std::vector<float> table(static_cast<size_t>(seq * dim));
  rotary_table(seq, dim, frequencies.data(), static_cast<float>(scaling.attention_factor),
               table.data());
  return table;
}

}  // namespace lockstep::runtime
