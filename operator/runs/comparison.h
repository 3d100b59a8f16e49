// Two runs side by side. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/runs/run_record.h"
#include "operator/runs/weights.h"

namespace lockstep::runs {

// A field of the configuration that is not the same; empty text where a run lacks it.
struct FieldDifference {
  std::string path, a, b;
};

// What a step computes, over the steps that both runs logged.
struct SeriesComparison {
  std::string key;
  int64_t num_common = 0, num_only_a = 0, num_only_b = 0;  // logged steps
  std::optional<int64_t> first_difference;                 // step; nothing: same bits
  double first_a = 0, first_b = 0;                         // there
  // max |a - b| / |b|, and where; infinite if b is 0 there and a is not.
  double largest_relative = 0;
  int64_t largest_step = 0;
};

struct Comparison {
  std::string a, b;  // folders
  std::vector<FieldDifference> fields;
  std::vector<SeriesComparison> series;      // loss, gradient norm, ... in fixed order
  std::optional<double> speed_a, speed_b;    // tokens/s, median
  std::optional<WeightsComparison> weights;  // nothing: not compared
  std::string why_no_weights;
};

// Weights are compared by compare_weights() and put in by the caller.
Comparison compare_runs(const RunRecord& a, const RunRecord& b);

// True if anything that was computed is not the same: a common step of a series, or the weights.
// Configuration and speed do not count.
bool differ(const Comparison& comparison);
// False if the runs have neither a logged step nor weights in common: then they tell nothing.
bool has_common_ground(const Comparison& comparison);

std::string render(const Comparison& comparison);
nlohmann::json to_json(const Comparison& comparison);

}  // namespace lockstep::runs
