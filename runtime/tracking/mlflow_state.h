// OUTPUT/mlflow.json: which run of MLflow an output is told to, and how far.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/mlflow_config.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr char kMlflowFileName[] = "mlflow.json";

struct MlflowState {
  std::string tracking_uri;
  std::string experiment;
  std::string key;          // of kMlflowKeyTag, drawn before the run is created
  std::string run_id;       // empty until it was
  std::string settings;     // checksum of the job's train that the run began with
  bool has_params = false;  // whether all of them were told: MLflow never changes one
  // The newest lines of metrics.jsonl that were told.
  int64_t told_step = 0;
  int64_t told_evaluation = -1;  // step 0 may have one
  bool operator==(const MlflowState&) const = default;
};

// Of `output`; a new one, with a key of its own, if there is none that this start goes on with.
// Goes on: the same server and experiment, and numbers that continue those told, either from a
// checkpoint (`step` > 0) or with the same settings. The steps that were told and are made again
// then have the same bits, so they are not told again.
//   settings: checksum of the job's train.
MlflowState state_to_go_on_with(const std::string& output, const common::MlflowConfig& config,
                                const std::string& settings, int64_t step);

// A state for a run that is yet to be created.
MlflowState new_mlflow_state(const common::MlflowConfig& config, const std::string& settings);

common::Result<void> write_mlflow_state(Disk& disk, const std::string& output,
                                        const MlflowState& state);

}  // namespace lockstep::runtime
