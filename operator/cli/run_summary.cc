#include "operator/cli/run_summary.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::cli {

std::optional<RunSummary> summarize_metrics(const std::string& metrics_jsonl) {
  RunSummary summary;
  std::vector<double> speeds;
  std::istringstream lines(metrics_jsonl);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step") || !entry.contains("loss")) continue;
    if (!entry["loss"].is_number()) continue;  // null: the step was skipped
    if (speeds.empty()) {
      summary.first_step = entry["step"];
      summary.first_loss = entry["loss"];
    }
    summary.last_step = entry["step"];
    summary.last_loss = entry["loss"];
    speeds.push_back(entry.value("tokens_per_second", 0.0));
  }
  if (speeds.empty()) return std::nullopt;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  summary.tokens_per_second = *middle;
  return summary;
}

std::string render_summary(const RunSummary& summary, const std::string& output) {
  char text[256];
  std::snprintf(text, sizeof text,
                "loss        %.4f (step %lld) -> %.4f (step %lld)\nspeed       %.0f tokens/s\n",
                summary.first_loss, static_cast<long long>(summary.first_step), summary.last_loss,
                static_cast<long long>(summary.last_step), summary.tokens_per_second);
  std::string result = text;
  const struct {
    const char* label;
    const char* name;
  } outputs[] = {{"model       ", "model"},
                 {"metrics     ", "metrics.jsonl"},
                 {"loss curve  ", "loss.svg"},
                 {"checkpoints ", "checkpoints"}};
  for (const auto& entry : outputs) {
    const std::filesystem::path path = std::filesystem::path(output) / entry.name;
    if (std::filesystem::exists(path)) result += entry.label + path.string() + "\n";
  }
  return result;
}

}  // namespace lockstep::cli
