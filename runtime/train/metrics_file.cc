#include "runtime/train/metrics_file.h"

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {

using common::Result;
using common::system_error;

namespace {

// A JSON number with all digits; null for what JSON has no number for.
std::string json_number(double value) {
  return std::isfinite(value) ? with_all_digits(value) : "null";
}

// Of pairs of answers, each with a comma before it; nothing without them.
std::string encode_pairs(const std::optional<PairFigures>& pairs, const std::string& prefix) {
  if (!pairs) return "";
  std::string text;
  const auto add = [&](std::string_view key, double value) {
    text.append(", \"").append(prefix).append(key).append("\": ").append(json_number(value));
  };
  add("reward_chosen", pairs->reward_chosen);
  add("reward_rejected", pairs->reward_rejected);
  add("reward_margin", pairs->margin());
  add("reward_accuracy", pairs->accuracy);
  if (!pairs->has_log_probs) return text;
  add("logps_chosen", pairs->logps_chosen);
  add("logps_rejected", pairs->logps_rejected);
  return text;
}

// What was measured of a step, each with a comma before it.
std::string encode_measures(const LoggedStep& logged) {
  std::string text;
  const auto add = [&text](std::string_view key, double value) {
    text.append(", \"").append(key).append("\": ").append(with_all_digits(value));
  };
  const auto add_bytes = [&text](std::string_view key, int64_t bytes) {
    text.append(", \"").append(key).append("\": ").append(std::to_string(bytes));
  };
  add("tokens_per_second", static_cast<double>(logged.last.step_tokens) / logged.step_seconds);
  add("step_seconds", logged.step_seconds);
  for (std::size_t part = 0; part < common::kNumStepParts; ++part) {
    add(std::string(common::kStepPartNames[part]).append("_seconds"), logged.parts[part]);
  }
  add("busy_seconds_min", logged.busy.min);
  add("busy_seconds_median", logged.busy.median);
  add("busy_seconds_max", logged.busy.max);
  text.append(", \"slowest_rank\": ").append(std::to_string(logged.busy.slowest_rank));
  const double flops_per_second = logged.cost.flops / logged.step_seconds;
  if (logged.cost.flops > 0) add("flops_per_second", flops_per_second);
  if (logged.cost.peak_flops_per_second > 0) {
    add("mfu", flops_per_second / logged.cost.peak_flops_per_second);
  }
  add_bytes("buffer_bytes", logged.memory.buffer_bytes);
  add_bytes("buffer_peak_bytes", logged.memory.buffer_peak_bytes);
  add_bytes("resident_bytes", logged.memory.resident_bytes);
  add_bytes("resident_peak_bytes", logged.memory.resident_peak_bytes);
  return text;
}

}  // namespace

std::string encode_metrics_line(const LoggedStep& logged) {
  const StepStats& stats = logged.last;
  return "{\"step\": " + std::to_string(stats.step) + ", \"loss\": " + json_number(stats.loss) +
         ", \"grad_norm\": " + json_number(stats.gradient_norm) +
         ", \"learning_rate\": " + with_all_digits(stats.learning_rate) +
         encode_pairs(stats.pairs, "") +
         (stats.loss_scale ? ", \"loss_scale\": " + json_number(*stats.loss_scale) : "") +
         (stats.skipped ? ", \"skipped\": true" : "") +
         ", \"tokens\": " + std::to_string(stats.run_tokens) +
         ", \"loss_tokens\": " + std::to_string(stats.loss_tokens) + encode_measures(logged) + "}";
}

std::string encode_metrics_line(const Evaluation& evaluation) {
  return "{\"step\": " + std::to_string(evaluation.step) +
         ", \"validation_loss\": " + with_all_digits(evaluation.loss) +
         encode_pairs(evaluation.pairs, "validation_") +
         ", \"validation_tokens\": " + std::to_string(evaluation.loss_tokens) +
         ", \"validation_seconds\": " + with_all_digits(evaluation.seconds) + "}";
}

MetricsFile::MetricsFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

MetricsFile& MetricsFile::operator=(MetricsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<MetricsFile> MetricsFile::open(const std::string& output) {
  const std::string path = output + "/" + kMetricsFileName;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_error("open", path, errno);
  return MetricsFile(path, descriptor);
}

Result<void> MetricsFile::append(const LoggedStep& logged) {
  return append_line(encode_metrics_line(logged));
}

Result<void> MetricsFile::append(const Evaluation& evaluation) {
  return append_line(encode_metrics_line(evaluation));
}

Result<void> MetricsFile::append_line(const std::string& text) {
  const std::string line = text + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

namespace {

// The lines that have a step and a number `key`.
std::vector<LossPoint> read_points(const std::string& output, const char* key) {
  std::vector<LossPoint> points;
  std::ifstream file(output + "/" + kMetricsFileName);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json.contains(key)) continue;
    if (!json["step"].is_number_integer() || !json[key].is_number()) continue;
    points.push_back({json["step"].get<int64_t>(), json[key].get<double>()});
  }
  return points;
}

}  // namespace

std::vector<LossPoint> read_losses(const std::string& output) {
  return read_points(output, "loss");
}

std::vector<LossPoint> read_validation_losses(const std::string& output) {
  return read_points(output, "validation_loss");
}

}  // namespace lockstep::runtime
