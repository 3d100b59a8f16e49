// What a run tells MLflow, as the bodies of its requests. Pure.
// Source: mlflow, protos/service.proto and utils/validation.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {

// Of one log-batch.
inline constexpr std::size_t kMaxMlflowMetrics = 1000;
inline constexpr std::size_t kMaxMlflowParams = 100;
inline constexpr std::size_t kMaxMlflowTags = 100;
// Of texts, in bytes: what the server counts as characters are at least as many bytes.
inline constexpr std::size_t kMaxMlflowKey = 250;
inline constexpr std::size_t kMaxMlflowParam = 6000;
inline constexpr std::size_t kMaxMlflowTag = 5000;

using MlflowTexts = std::map<std::string, std::string>;

// The leaves of `value` by path: {"batch": {"size": 8}} -> "train.batch.size" = "8" below "train".
// A list is one leaf, as JSON. Null is left out. A key that MLflow would refuse becomes one that it
// takes, with a checksum that keeps it apart from others; a text that is too long ends in "...".
MlflowTexts flatten_params(const nlohmann::json& value, const std::string& prefix);

// `texts` as MLflow takes tags: too long ones end in "...", empty ones are left out.
MlflowTexts shortened_tags(const MlflowTexts& texts);

// [{"key", "value"}] of `texts`, in parts of at most `most`.
std::vector<nlohmann::json> in_parts(const MlflowTexts& texts, std::size_t most);

// One line of metrics.jsonl.
struct MetricsLine {
  int64_t step = 0;
  bool is_evaluation = false;
  nlohmann::json values;  // its numbers by name; a number that JSON has not is the text "NaN"
};
// False if `text` is no such line.
bool read_metrics_line(std::string_view text, MetricsLine& line);

// Appends the metrics of `line` to `metrics`.
//   time_ms: since 1970.
void append_metrics(const MetricsLine& line, int64_t time_ms, nlohmann::json& metrics);

}  // namespace lockstep::runtime
