#include "operator/runs/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "operator/runs/html_text.h"

namespace lockstep::runs {
namespace {

using nlohmann::json;

// What a step computes; what was measured differs between any two runs.
constexpr std::array<const char*, 5> kComputed = {"loss", "grad_norm", "learning_rate",
                                                  "loss_scale", "validation_loss"};
constexpr std::size_t kMaxNames = 8;  // tensors that are named

std::string all_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

double relative_difference(double a, double b) {
  if (a == b) return 0;
  return b == 0 ? std::numeric_limits<double>::infinity() : std::abs(a - b) / std::abs(b);
}

void compare_point(const Point& a, const Point& b, SeriesComparison& result) {
  ++result.num_common;
  if (a.value == b.value) return;
  if (!result.first_difference) {
    result.first_difference = a.step;
    result.first_a = a.value;
    result.first_b = b.value;
  }
  const double relative = relative_difference(a.value, b.value);
  if (relative <= result.largest_relative) return;
  result.largest_relative = relative;
  result.largest_step = a.step;
}

SeriesComparison compare_series(const char* key, const RunRecord& run_a, const RunRecord& run_b) {
  SeriesComparison result{.key = key};
  const std::vector<Point>& a = series_of(run_a, key);
  const std::vector<Point>& b = series_of(run_b, key);
  std::size_t at_a = 0, at_b = 0;
  while (at_a < a.size() && at_b < b.size()) {
    if (a[at_a].step == b[at_b].step) {
      compare_point(a[at_a++], b[at_b++], result);
    } else if (a[at_a].step < b[at_b].step) {
      ++at_a;
      ++result.num_only_a;
    } else {
      ++at_b;
      ++result.num_only_b;
    }
  }
  result.num_only_a += static_cast<int64_t>(a.size() - at_a);
  result.num_only_b += static_cast<int64_t>(b.size() - at_b);
  return result;
}

std::string path_of(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return "train" + pointer;
}

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<FieldDifference> compare_fields(const RunRecord& a, const RunRecord& b) {
  std::vector<FieldDifference> fields;
  if (a.ranks != b.ranks) {
    fields.push_back({"ranks", std::to_string(a.ranks), std::to_string(b.ranks)});
  }
  const json flat_a = a.train.is_object() && !a.train.empty() ? a.train.flatten() : json::object();
  const json flat_b = b.train.is_object() && !b.train.empty() ? b.train.flatten() : json::object();
  for (const auto& [pointer, value] : flat_a.items()) {
    const auto other = flat_b.find(pointer);
    if (other != flat_b.end() && *other == value) continue;
    fields.push_back({path_of(pointer), text_of(value),
                      other == flat_b.end() ? std::string() : text_of(*other)});
  }
  for (const auto& [pointer, value] : flat_b.items()) {
    if (!flat_a.contains(pointer)) fields.push_back({path_of(pointer), "", text_of(value)});
  }
  for (const auto& [reference, commit] : a.hub_commits) {
    const auto other = b.hub_commits.find(reference);
    if (other == b.hub_commits.end() || other->second == commit) continue;
    fields.push_back({"commit of " + reference, commit, other->second});
  }
  return fields;
}

std::string or_absent(const std::string& value) {
  return value.empty() ? "(absent)" : value;
}

std::string render_series(const SeriesComparison& one) {
  std::string line = one.key + ": ";
  line.resize(std::max<std::size_t>(line.size(), 18), ' ');
  if (one.num_common == 0) return line + "no step in common\n";
  const std::string common = std::to_string(one.num_common) + " steps in common";
  if (!one.first_difference) {
    line += "same bits in " + common;
  } else {
    line += "differs from step " + std::to_string(*one.first_difference) + " on (" +
            all_digits(one.first_a) + ", " + all_digits(one.first_b) + "); max |a-b|/|b| " +
            short_number(one.largest_relative, 3) + " at step " + std::to_string(one.largest_step) +
            "; " + common;
  }
  if (one.num_only_a + one.num_only_b > 0) {
    line += "; " + std::to_string(one.num_only_a) + " only in a, " +
            std::to_string(one.num_only_b) + " only in b";
  }
  return line + "\n";
}

std::string render_names(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string line = "  " + std::to_string(names.size()) + " " + what + ":";
  for (std::size_t i = 0; i < names.size() && i < kMaxNames; ++i) line += " " + names[i];
  return line + (names.size() > kMaxNames ? " ...\n" : "\n");
}

std::string render_weights(const Comparison& comparison) {
  std::string text = "weights:          ";
  if (!comparison.weights) return text + "not compared: " + comparison.why_no_weights + "\n";
  const WeightsComparison& weights = *comparison.weights;
  if (weights.same()) {
    return text + "same bits in " + std::to_string(weights.num_tensors) + " tensors\n";
  }
  return text + "differ\n" + render_names("with other bits", weights.other_bits) +
         render_names("with another type or shape", weights.other_form) +
         render_names("only in a", weights.only_a) + render_names("only in b", weights.only_b);
}

}  // namespace

Comparison compare_runs(const RunRecord& a, const RunRecord& b) {
  Comparison comparison{.a = a.folder, .b = b.folder};
  comparison.fields = compare_fields(a, b);
  for (const char* key : kComputed) {
    if (series_of(a, key).empty() && series_of(b, key).empty()) continue;
    comparison.series.push_back(compare_series(key, a, b));
  }
  comparison.speed_a = median(series_of(a, "tokens_per_second"));
  comparison.speed_b = median(series_of(b, "tokens_per_second"));
  return comparison;
}

bool differ(const Comparison& comparison) {
  return (comparison.weights && !comparison.weights->same()) ||
         std::any_of(comparison.series.begin(), comparison.series.end(),
                     [](const SeriesComparison& one) { return one.first_difference.has_value(); });
}

bool has_common_ground(const Comparison& comparison) {
  return comparison.weights ||
         std::any_of(comparison.series.begin(), comparison.series.end(),
                     [](const SeriesComparison& one) { return one.num_common > 0; });
}

std::string render(const Comparison& comparison) {
  std::string text = "a: " + comparison.a + "\nb: " + comparison.b + "\n";
  text += comparison.fields.empty() ? "configuration:    the same\n" : "configuration:\n";
  for (const FieldDifference& one : comparison.fields) {
    text += "  " + one.path + ": " + or_absent(one.a) + " | " + or_absent(one.b) + "\n";
  }
  for (const SeriesComparison& one : comparison.series) text += render_series(one);
  text += render_weights(comparison);
  if (comparison.speed_a && comparison.speed_b && *comparison.speed_b > 0) {
    text += "tokens/s, median: " + short_number(*comparison.speed_a) + " | " +
            short_number(*comparison.speed_b) + ", a/b " +
            short_number(*comparison.speed_a / *comparison.speed_b, 3) + "\n";
  }
  return text;
}

json to_json(const Comparison& comparison) {
  json fields = json::array(), series = json::array();
  for (const FieldDifference& one : comparison.fields) {
    fields.push_back({{"path", one.path}, {"a", one.a}, {"b", one.b}});
  }
  for (const SeriesComparison& one : comparison.series) {
    series.push_back(
        {{"key", one.key},
         {"stepsInCommon", one.num_common},
         {"stepsOnlyInA", one.num_only_a},
         {"stepsOnlyInB", one.num_only_b},
         {"firstDifferentStep", one.first_difference ? json(*one.first_difference) : json()},
         {"largestRelativeDifference", one.largest_relative},
         {"largestAtStep", one.largest_step}});
  }
  json weights;
  if (comparison.weights) {
    weights = {{"same", comparison.weights->same()},
               {"tensors", comparison.weights->num_tensors},
               {"otherBits", comparison.weights->other_bits},
               {"otherForm", comparison.weights->other_form},
               {"onlyInA", comparison.weights->only_a},
               {"onlyInB", comparison.weights->only_b}};
  }
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json();
  };
  return {
      {"a", comparison.a},
      {"b", comparison.b},
      {"differ", differ(comparison)},
      {"configuration", std::move(fields)},
      {"series", std::move(series)},
      {"weights", std::move(weights)},
      {"tokensPerSecond", {{"a", number(comparison.speed_a)}, {"b", number(comparison.speed_b)}}}};
}

}  // namespace lockstep::runs
