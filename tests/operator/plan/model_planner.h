// plan() for the states of the model checker: each different view of the cluster is planned for
// once. Statuses are kept by number. Times are relative to a moment that never passes: when time
// goes by, what is dated moves into the past instead.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator/api/training_job.h"
#include "tests/operator/plan/model_state.h"

namespace lockstep::plan {

// A plan in the model's terms.
struct Decision {
  std::vector<Step> steps;  // the write of the status last, if it differs
  int requeue_after = 0;    // seconds; 0 = not at all
};

class ModelPlanner {
 public:
  // `apis`: the pod groups of schedulers that the API server serves.
  explicit ModelPlanner(api::TrainingJob job, GangApis apis = {});

  // What the operator decides from its caches. Precondition: the job is in them.
  Decision decide(const State& state);
  const api::TrainingJobStatus& status(int number) const {
    return statuses_[static_cast<std::size_t>(number)];
  }
  // As its user creates it.
  JobType::Spec first_spec() const;
  // The same status `seconds` later.
  int age(int number, int seconds);
  std::size_t num_plans() const { return plans_.size(); }
  std::size_t num_statuses() const { return statuses_.size(); }

 private:
  struct Planned {
    std::vector<Step> steps;  // without UIDs and versions
    int status = 0;
    int requeue_after = 0;
  };
  Planned plan_for(const State& state);
  int number_of(api::TrainingJobStatus status);

  const api::TrainingJob job_;
  const GangApis apis_;
  std::vector<api::TrainingJobStatus> statuses_;
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<std::string, Planned> plans_;
};

}  // namespace lockstep::plan
