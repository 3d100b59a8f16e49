// What a job is doing, why, and what to do about it, in words: a pure function of what the API
// server has of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"

namespace lockstep::cli {

// A pod of a job, as far as it tells why the job waits.
struct PodFact {
  std::string name;
  int64_t attempt = 0;
  int64_t rank = 0;  // its first
  std::string phase;
  std::string node;
  bool is_deleting = false;
  // Why it cannot start: the scheduler's words, or reason and message of a waiting container.
  std::string reason;  // "Unschedulable", "ImagePullBackOff", ...
  std::string trouble;
  std::optional<int64_t> exit_code;  // of `trainer`
};
// Nothing if the pod is none of a job. Never throws.
std::optional<PodFact> read_pod(const nlohmann::json& pod);
// Those of `pods` that are the job's, in the order of attempt and rank.
std::vector<PodFact> pods_of(const api::TrainingJob& job, const nlohmann::json& pods);

struct Explanation {
  std::string headline;           // "waiting for nodes"
  std::vector<std::string> why;   // facts
  std::vector<std::string> todo;  // commands and changes; empty: nothing to do
};
// `pods` as pods_of() gives them.
Explanation explain_job(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                        api::Time now);

}  // namespace lockstep::cli
