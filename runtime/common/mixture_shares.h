// How many samples each source of a mixture gives: weights as whole numbers.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::common {

// A round of a mixture has at most so many samples: divisible by every number up to 10 and by 100,
// so that weights of the usual kind are met exactly.
inline constexpr int64_t kMostSamplesPerRound = 50400;

// The least part of the sum of all weights that a weight may be: some samples of every round.
inline constexpr int64_t kLeastPartOfWeights = 10000;

// How many samples of a round are of each source, [weight], without a common divisor; each share is
// within one of kMostSamplesPerRound of its weight, by largest remainders (of equal ones the
// first).
//   weights: positive, none below 1 / kLeastPartOfWeights of their sum.
std::vector<int64_t> mixture_shares(const std::vector<double>& weights);

// The same of a `spec.train`; {1} of one that has a single source.
//   train: after check_and_default(train_fields(), ...), and right.
std::vector<int64_t> mixture_shares_of(const nlohmann::json& train);

}  // namespace lockstep::common
