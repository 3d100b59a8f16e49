// Random jobs in random clusters: some that a cluster can be in, some that nobody should ever see.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "operator/plan/plan.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {

class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int64_t>(choices.size())));
  }

 private:
  std::mt19937_64 bits_;
};

// A template that asks for nodes of one of three kinds, or none at all.
nlohmann::json random_template(Dice& dice);
// Of which kind the template is, or the one that a pod was made from; empty = none.
std::string kind_of(const nlohmann::json& pod);

// How a container may have ended shortly before `now`.
ContainerExit random_exit(Dice& dice, api::Time now);

ModelCluster random_state(uint64_t seed);

}  // namespace lockstep::plan
