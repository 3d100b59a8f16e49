// A cluster small enough to think about: it holds one job and what was observed of it, carries
// plans out as the reconciler does, and lets a test play the scheduler, the kubelet and other
// users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

inline constexpr api::Time kStart{std::chrono::seconds{1800000000}};

// A valid job "demo" that trains, with defaults filled in; a power of two up to 8 can be its size.
api::TrainingJob training_job(int64_t ranks);
// A valid job "demo" that runs a program of the user's own.
api::TrainingJob command_job(int64_t ranks);

class ModelCluster {
 public:
  explicit ModelCluster(api::TrainingJob job_to_run) : job(std::move(job_to_run)) {}

  // The next plan, without any effect.
  Plan decide() const { return plan(job, seen, settings, now); }
  // Carries out the first `num_actions` actions, and the status if all of them were.
  void apply(const Plan& plan, std::size_t num_actions = std::numeric_limits<std::size_t>::max());
  // Plans and applies until nothing changes; returns the number of rounds, or 100 if it never ends.
  int settle();

  // The pod whose first rank is `rank`, of the current attempt. Precondition: it exists.
  PodView& pod(int64_t rank);
  PodView& add_pod(int64_t attempt, int64_t rank, const std::string& owner_uid);
  // All pods of the current attempt run on a node.
  void run_all();
  void end(int64_t rank, int64_t exit_code, const std::string& message = "");
  void remove_pod(const std::string& name);
  // The kubelet's confirmation: pods in deletion disappear.
  void remove_deleting_pods();
  void change_spec() { ++job.meta.generation; }  // call after an edit of job.spec

  api::TrainingJob job;
  Observation seen;
  // The schedulers' pod groups by name, as plans made them last.
  std::map<std::string, nlohmann::json> pod_groups;
  Settings settings{.runtime_image = "example.test/runtime:1"};
  api::Time now = kStart;

 private:
  void apply(const Action& action);
  int next_uid_ = 1;
};

// A cluster in which all ranks of the job's first attempt run, and the status says so.
ModelCluster running_cluster(api::TrainingJob job);

}  // namespace lockstep::plan
