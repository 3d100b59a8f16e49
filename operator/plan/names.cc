#include "operator/plan/names.h"

#include <charconv>
#include <string>

namespace lockstep::plan {
namespace {

// Reads a number as names are written: digits, no leading zero, at most nine of them.
std::optional<int64_t> parse_index(std::string_view text) {
  constexpr std::size_t kMaxDigits = 9;
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// What follows "<job>-" in `name`.
std::optional<std::string_view> suffix_of(std::string_view job, std::string_view name) {
  if (name.size() <= job.size() + 1 || !name.starts_with(job) || name[job.size()] != '-') {
    return std::nullopt;
  }
  return name.substr(job.size() + 1);
}

}  // namespace

std::string pod_name(std::string_view job, PodIdentity identity) {
  return config_map_name(job, identity.attempt) + "-" + std::to_string(identity.rank);
}

std::string config_map_name(std::string_view job, int64_t attempt) {
  return std::string(job) + "-" + std::to_string(attempt);
}

std::string service_name(std::string_view job) {
  return std::string(job);
}

std::string pod_group_name(const api::TrainingJob& job, int64_t attempt) {
  constexpr std::size_t kUidChars = 8;
  return job.meta.name + "-" + job.meta.uid.substr(0, kUidChars) + "-" + std::to_string(attempt);
}

std::optional<PodIdentity> parse_pod_name(std::string_view job, std::string_view name) {
  const std::optional<std::string_view> suffix = suffix_of(job, name);
  if (!suffix) return std::nullopt;
  const std::size_t dash = suffix->find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> attempt = parse_index(suffix->substr(0, dash));
  const std::optional<int64_t> rank = parse_index(suffix->substr(dash + 1));
  if (!attempt || !rank) return std::nullopt;
  return PodIdentity{.attempt = *attempt, .rank = *rank};
}

std::optional<int64_t> parse_config_map_name(std::string_view job, std::string_view name) {
  const std::optional<std::string_view> suffix = suffix_of(job, name);
  return suffix ? parse_index(*suffix) : std::nullopt;
}

std::map<std::string, std::string> child_labels(const api::TrainingJob& job) {
  return {{kJobNameLabel, job.meta.name},
          {kJobUidLabel, job.meta.uid},
          {"app.kubernetes.io/name", "lockstep"},
          {"app.kubernetes.io/instance", job.meta.name},
          {"app.kubernetes.io/component", "trainer"},
          {"app.kubernetes.io/part-of", "lockstep"},
          {"app.kubernetes.io/managed-by", "lockstep-operator"}};
}

std::map<std::string, std::string> pod_labels(const api::TrainingJob& job, PodIdentity identity) {
  std::map<std::string, std::string> labels = child_labels(job);
  labels[kRankLabel] = std::to_string(identity.rank);
  labels[kAttemptLabel] = std::to_string(identity.attempt);
  labels[kRoleLabel] = "worker";
  return labels;
}

std::string pod_selector(std::string_view job) {
  return std::string(kJobNameLabel) + "=" + std::string(job);
}

}  // namespace lockstep::plan
