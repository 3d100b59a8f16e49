#include "runtime/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

namespace lockstep::runtime {
namespace {

// Makes 0 of all weights below the k-th largest.
void keep_top_k(int64_t k, std::vector<double>& weights) {
  if (k <= 0 || k >= static_cast<int64_t>(weights.size())) return;
  std::vector<double> sorted = weights;
  const auto kth = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (double& weight : weights) {
    if (weight < *kth) weight = 0;
  }
}

// Makes 0 of the smallest weights whose sum is at most 1 - p of all; never of the largest.
void keep_top_p(double p, std::vector<double>& weights) {
  if (p >= 1) return;
  std::vector<std::size_t> rising(weights.size());
  std::iota(rising.begin(), rising.end(), std::size_t{0});
  std::sort(rising.begin(), rising.end(), [&](std::size_t a, std::size_t b) {
    return weights[a] != weights[b] ? weights[a] < weights[b] : a > b;
  });
  const double allowed = (1 - p) * std::accumulate(weights.begin(), weights.end(), 0.0);
  rising.pop_back();
  double sum = 0;
  for (const std::size_t token : rising) {
    sum += weights[token];
    if (sum > allowed) return;
    weights[token] = 0;
  }
}

}  // namespace

std::vector<double> token_probabilities(std::span<const float> logits, const Sampling& sampling) {
  const auto best = std::max_element(logits.begin(), logits.end());
  std::vector<double> weights(logits.size());
  if (sampling.temperature <= 0) {
    weights[static_cast<std::size_t>(best - logits.begin())] = 1;
    return weights;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[i]) - *best) / sampling.temperature);
  }
  keep_top_k(sampling.top_k, weights);
  keep_top_p(sampling.top_p, weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

int32_t draw_token(std::span<const double> probabilities, double uniform) {
  double rest = uniform;
  std::size_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    last = i;
    rest -= probabilities[i];
    if (rest < 0) break;
  }
  return static_cast<int32_t>(last);  // the last possible one where rounding left a crumb
}

}  // namespace lockstep::runtime
