// Are a job's input files here?
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "runtime/common/problem.h"

namespace lockstep::local {

// A warning for every path of `job` that matches nothing on this machine, references to the hub
// excepted. The ranks decide what
// they can read; this only tells it before they start.
common::Problems find_missing_inputs(const api::TrainingJob& job);

// What is wrong with the model that train.model.path holds, if it is here.
common::Problems find_model_problems(const api::TrainingJob& job);

// A line for every input of `job` that is on the hub: what will be fetched.
std::vector<std::string> explain_hub_inputs(const api::TrainingJob& job);

}  // namespace lockstep::local
