// What is measured of pairs of answers beside their loss.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace lockstep::runtime {

// Sums over pairs, or means of them.
struct PairFigures {
  // Of a reward model what it says, else beta times what the answer's log-probability has gained.
  double reward_chosen = 0;
  double reward_rejected = 0;  // the same
  double accuracy = 0;         // pairs whose chosen answer has the larger reward
  // Log-probability of the answer; of orpo that of its mean token; of a reward model none, 0.
  double logps_chosen = 0;
  double logps_rejected = 0;  // the same
  bool has_log_probs = true;  // no value to add up: whether the task has any

  double margin() const { return reward_chosen - reward_rejected; }

  static constexpr std::size_t kNumValues = 5;
  std::array<double, kNumValues> values() const {
    return {reward_chosen, reward_rejected, accuracy, logps_chosen, logps_rejected};
  }
  static PairFigures of(const std::array<double, kNumValues>& values) {
    return {.reward_chosen = values[0],
            .reward_rejected = values[1],
            .accuracy = values[2],
            .logps_chosen = values[3],
            .logps_rejected = values[4]};
  }
};

// `sum` and `more` together.
inline PairFigures add(const PairFigures& sum, const PairFigures& more) {
  auto values = sum.values();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += more.values()[i];
  return PairFigures::of(values);
}

// `sum` and each of `more` in their order.
inline PairFigures add_all(PairFigures sum, std::span<const PairFigures> more) {
  for (const PairFigures& figures : more) sum = add(sum, figures);
  return sum;
}

inline PairFigures mean_of(const PairFigures& sum, double num_pairs) {
  auto values = sum.values();
  for (double& value : values) value /= num_pairs;
  return PairFigures::of(values);
}

}  // namespace lockstep::runtime
