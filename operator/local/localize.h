// A job as it runs on this machine: paths of the manifest's volumes become paths here. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "runtime/common/problem.h"

namespace lockstep::local {

// `inputs`: name of an input of the manifest -> path here (--input NAME=PATH). Paths in `train`
// that start at that input's mountPath then start at the path here; inputs that are not named keep
// their paths. `problems` gets one for every name that the manifest lacks.
api::TrainingJob localize(api::TrainingJob job, const std::map<std::string, std::string>& inputs,
                          common::Problems& problems);

// Where a job's output goes when nothing else is said: "runs/<job>".
std::string default_output(const api::TrainingJob& job);

// The fields of the job's template that mean nothing to processes, as paths below "spec.template".
// Environment, command and arguments of the container `trainer` do.
std::vector<std::string> without_effect_here(const nlohmann::json& pod_template);

}  // namespace lockstep::local
