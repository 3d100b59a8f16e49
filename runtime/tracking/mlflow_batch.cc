#include "runtime/tracking/mlflow_batch.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using nlohmann::json;

// Letters, digits and these, says MLflow.
bool is_allowed(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 128 &&
         (std::isalnum(byte) != 0 || std::string_view("_-. :/").find(c) != std::string_view::npos);
}

// MLflow takes keys as paths, too, and wants none that a file system would read otherwise.
bool is_plain_path(std::string_view key) {
  if (key.empty() || key.front() == '/' || key.back() == '/' || key == "." || key == "..")
    return false;
  return key.find("//") == std::string_view::npos && key.find("/.") == std::string_view::npos &&
         !key.starts_with("./") && !key.starts_with("../");
}

std::string allowed_key(const std::string& key) {
  std::string allowed = key;
  std::replace_if(
      allowed.begin(), allowed.end(), [](char c) { return !is_allowed(c); }, '_');
  if (!is_plain_path(allowed)) std::replace(allowed.begin(), allowed.end(), '/', '_');
  if (allowed == key && key.size() <= kMaxMlflowKey) return key;
  const std::string mark = "-" + crc32c_hex(std::as_bytes(std::span(key)));
  return allowed.substr(0, kMaxMlflowKey - mark.size()) + mark;
}

// Cut at a character, never inside one.
std::string shortened(const std::string& text, std::size_t most) {
  constexpr std::string_view kEllipsis = "...";
  if (text.size() <= most) return text;
  std::size_t end = most - kEllipsis.size();
  const auto is_inside = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && is_inside(end)) --end;
  return text.substr(0, end).append(kEllipsis);
}

void add_leaves(const json& value, const std::string& path, MlflowTexts& params) {
  if (value.is_null()) return;
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      add_leaves(child, path.empty() ? key : path + "." + key, params);
    }
    return;
  }
  const std::string text = value.is_string()
                               ? value.get<std::string>()
                               : value.dump(-1, ' ', false, json::error_handler_t::replace);
  params[allowed_key(path)] = shortened(text, kMaxMlflowParam);
}

}  // namespace

MlflowTexts flatten_params(const json& value, const std::string& prefix) {
  MlflowTexts params;
  add_leaves(value, prefix, params);
  return params;
}

MlflowTexts shortened_tags(const MlflowTexts& texts) {
  MlflowTexts tags;
  for (const auto& [key, text] : texts) {
    if (!text.empty()) tags[allowed_key(key)] = shortened(text, kMaxMlflowTag);
  }
  return tags;
}

std::vector<json> in_parts(const MlflowTexts& texts, std::size_t most) {
  std::vector<json> parts;
  for (const auto& [key, text] : texts) {
    if (parts.empty() || parts.back().size() == most) parts.push_back(json::array());
    parts.back().push_back({{"key", key}, {"value", text}});
  }
  return parts;
}

bool read_metrics_line(std::string_view text, MetricsLine& line) {
  const json found = json::parse(text, nullptr, false);
  if (!found.is_object()) return false;
  const auto step = found.find("step");
  if (step == found.end() || !step->is_number_integer()) return false;
  line = {.step = step->get<int64_t>(),
          .is_evaluation = found.contains("validation_loss"),
          .values = json::object()};
  for (const auto& [key, value] : found.items()) {
    if (key == "step") continue;
    if (value.is_number()) line.values[key] = value;
    if (value.is_boolean()) line.values[key] = value.get<bool>() ? 1 : 0;
    if (value.is_null()) line.values[key] = "NaN";
  }
  return true;
}

void append_metrics(const MetricsLine& line, int64_t time_ms, json& metrics) {
  for (const auto& [key, value] : line.values.items()) {
    metrics.push_back(
        {{"key", key}, {"value", value}, {"timestamp", time_ms}, {"step", line.step}});
  }
}

}  // namespace lockstep::runtime
