#include "runtime/common/mixture_shares.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <nlohmann/json.hpp>

namespace lockstep::common {

std::vector<int64_t> mixture_shares(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<double> remainders;
  int64_t rest = kMostSamplesPerRound;
  for (const double weight : weights) {
    const double exact = weight * static_cast<double>(kMostSamplesPerRound) / sum;
    shares.push_back(static_cast<int64_t>(std::floor(exact)));
    remainders.push_back(exact - std::floor(exact));
    rest -= shares.back();
    assert(shares.back() > 0);
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return remainders[left] > remainders[right];
  });
  for (std::size_t i = 0; rest > 0; ++i, --rest) ++shares[order[i]];
  int64_t divisor = 0;
  for (const int64_t share : shares) divisor = std::gcd(divisor, share);
  for (int64_t& share : shares) share /= divisor;
  return shares;
}

std::vector<int64_t> mixture_shares_of(const nlohmann::json& train) {
  const nlohmann::json::json_pointer sources("/data/sources");
  if (!train.contains(sources)) return {1};
  std::vector<double> weights;
  for (const nlohmann::json& source : train.at(sources)) {
    weights.push_back(source.at("weight").get<double>());
  }
  return mixture_shares(weights);
}

}  // namespace lockstep::common
