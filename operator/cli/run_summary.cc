#include "operator/cli/run_summary.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::cli {

namespace {

// The values of one key over the lines that have it.
using Series = std::map<std::string, std::vector<double>>;

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string part_key(std::size_t part) {
  return std::string(common::kStepPartNames[part]).append("_seconds");
}

void add_numbers(Series& series, const nlohmann::json& entry) {
  for (const auto& [key, value] : entry.items()) {
    if (value.is_number()) series[key].push_back(value.get<double>());
  }
}

// "412 ms: data 0.1 %, forward 31.0 %, ..."
std::string render_step(const RunSummary& summary) {
  char text[64];
  const bool is_long = summary.step_seconds >= 1;
  std::snprintf(text, sizeof text,
                is_long ? "%.2f s:" : "%.0f ms:", summary.step_seconds * (is_long ? 1 : 1000));
  std::string line = text;
  // Medians of parts do not add up to the median of the whole.
  const double all = std::accumulate(summary.step_parts.begin(), summary.step_parts.end(), 0.0);
  for (std::size_t part = 0; part < common::kNumStepParts; ++part) {
    std::snprintf(text, sizeof text, " %.1f %%,", 100 * summary.step_parts[part] / all);
    line.append(" ").append(common::kStepPartNames[part]).append(text);
  }
  line.pop_back();
  return line;
}

}  // namespace

std::optional<RunSummary> summarize_metrics(const std::string& metrics_jsonl) {
  RunSummary summary;
  Series series;
  bool is_first = true;
  std::istringstream lines(metrics_jsonl);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step") || !entry.contains("loss")) continue;
    if (!entry["loss"].is_number()) continue;  // null: the step was skipped
    if (is_first) {
      summary.first_step = entry["step"];
      summary.first_loss = entry["loss"];
    }
    is_first = false;
    summary.last_step = entry["step"];
    summary.last_loss = entry["loss"];
    add_numbers(series, entry);
  }
  if (is_first) return std::nullopt;
  summary.tokens_per_second = median(series["tokens_per_second"]);
  summary.step_seconds = median(series["step_seconds"]);
  for (std::size_t part = 0; part < common::kNumStepParts; ++part) {
    summary.step_parts[part] = median(series[part_key(part)]);
  }
  return summary;
}

namespace {

// Which step the model is of, if it is not the last: that of the lowest validation loss.
std::string step_of_model(const std::string& output) {
  std::ifstream in(std::filesystem::path(output) / "finished.json");
  const nlohmann::json finished = nlohmann::json::parse(in, nullptr, false);
  if (!finished.is_object() || !finished.contains("exportedStep")) return "";
  if (finished["exportedStep"] == finished["step"]) return "";
  return " (step " + finished["exportedStep"].dump() + ": the lowest validation loss)";
}

}  // namespace

std::string render_summary(const RunSummary& summary, const std::string& output) {
  char text[256];
  std::snprintf(text, sizeof text,
                "loss        %.4f (step %lld) -> %.4f (step %lld)\nspeed       %.0f tokens/s\n",
                summary.first_loss, static_cast<long long>(summary.first_step), summary.last_loss,
                static_cast<long long>(summary.last_step), summary.tokens_per_second);
  std::string result = text;
  if (summary.step_seconds > 0 && summary.step_parts != common::StepParts{})
    result.append("step        ").append(render_step(summary) + "\n");
  const struct {
    const char* label;
    const char* name;
  } outputs[] = {{"model       ", "model"},
                 {"metrics     ", "metrics.jsonl"},
                 {"loss curve  ", "loss.svg"},
                 {"checkpoints ", "checkpoints"}};
  for (const auto& entry : outputs) {
    const std::filesystem::path path = std::filesystem::path(output) / entry.name;
    if (!std::filesystem::exists(path)) continue;
    result += entry.label + path.string();
    if (entry.name == std::string_view("model")) result += step_of_model(output);
    result += '\n';
  }
  return result;
}

}  // namespace lockstep::cli
