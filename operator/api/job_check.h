// What is wrong with a TrainingJob beyond types and bounds.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "runtime/common/problem.h"

namespace lockstep::api {

// Everything that makes a decoded job impossible to run, whether or not the API server checked it
// before: name, one of train and command, train with its relations, mounts, environment. Paths
// start at "metadata" or "spec". Never throws.
common::Problems check_job(const TrainingJob& job);

// The relations between fields of a defaulted `spec` (and inside its `train`); types and bounds are
// the table's matter. Relations whose fields are missing or of a wrong type are skipped.
common::Problems check_spec_relations(const nlohmann::json& spec);

// What is wrong with a job's name, at path "metadata.name".
common::Problems check_name(const std::string& name);

}  // namespace lockstep::api
