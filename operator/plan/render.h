// The JSON of a job's children. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/plan/names.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

// What all children of one attempt share.
struct AttemptSpec {
  int64_t number = 0;
  int64_t ranks = 1;  // world size of this attempt; spec.ranks may already be another
  int64_t ranks_per_pod = 1;
  std::vector<std::string> avoided_nodes{};  // Note [Avoided, not forbidden]
  std::optional<api::QueueStatus> queue{};   // nothing = no queue
  std::optional<api::GangStatus> gang{};     // nothing = no pod group of a scheduler
  nlohmann::json pod_template{};             // as the attempt began; empty = none
};

// How long a pod may take to stop after SIGTERM: checkpoint.gracePeriodSeconds and a margin for
// what comes after the checkpoint; for a program of the user's own what the attempt's template
// says, or Kubernetes' default.
std::chrono::seconds grace_period(const api::TrainingJob& job, const nlohmann::json& pod_template);

// The key of an attempt's ConfigMap under which its template is kept.
inline constexpr const char* kTemplateKey = "template.json";

// A template as it is kept there; empty = none. Equal templates have equal texts.
std::string template_text(const nlohmann::json& pod_template);

// The metadata of a child: the job's namespace, the labels of all children, the job as its owner.
nlohmann::json child_metadata(const api::TrainingJob& job, const std::string& name);

// The immutable ConfigMap "<job>-<attempt>" with the key job.json = {"name", "ranks", "train"} and,
// if the attempt has a template, kTemplateKey.
nlohmann::json render_config_map(const api::TrainingJob& job, const AttemptSpec& attempt);

// The headless Service "<job>", through which ranks find rank 0 before it is ready.
nlohmann::json render_service(const api::TrainingJob& job, const Settings& settings);

// The pod of `rank`, and of the ranks after it where a pod holds several: `rank` is the first one.
// It then asks for what all of them need, and its first process is the launcher (runtime/launch).
// A program of the user's own is started once per pod: it is torchrun, or the launcher itself.
// The container runs as user and group 65532 ("nonroot" in our images and in common base images),
// which also owns mounted volumes. `spec.env` comes after our variables and never overrides one.
// Without an output every pod gets an empty folder of its own. The attempt's template is laid over
// all that (overlay.h).
nlohmann::json render_pod(const api::TrainingJob& job, const AttemptSpec& attempt, int64_t rank,
                          const Settings& settings);

}  // namespace lockstep::plan
