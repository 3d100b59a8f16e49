// What we ask of an MLflow server, one call each. Errors are those of call_mlflow().
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "runtime/common/result.h"
#include "runtime/tracking/mlflow_batch.h"
#include "runtime/tracking/mlflow_call.h"

namespace lockstep::runtime {

// The tag by which a run is found again whose creation was not answered, or not written down.
inline constexpr char kMlflowKeyTag[] = "lockstep.key";

// As MLflow names them.
enum class MlflowStatus { kRunning, kFinished, kFailed, kKilled };

struct NewMlflowRun {
  std::string experiment_id;
  std::string name;
  std::string key;  // of kMlflowKeyTag
  int64_t start_ms = 0;
};

class MlflowClient {
 public:
  MlflowClient(MlflowServer server, std::stop_token stop);

  // The id of the experiment, created if there is none. kInvalidArgument if it was deleted.
  common::Result<std::string> experiment_id(const std::string& name) const;
  // The id of the run with this key; of a new one if there is none.
  common::Result<std::string> create_run(const NewMlflowRun& run) const;
  // Whether there is such a run, and nobody deleted it.
  common::Result<bool> has_run(const std::string& run_id) const;
  // Says "again at work" of a run that had ended, or how it ended.
  //   end_ms: since 1970; not sent for kRunning.
  common::Result<void> set_status(const std::string& run_id, MlflowStatus status,
                                  int64_t end_ms) const;
  // At most kMaxMlflowMetrics of `metrics`, as append_metrics() makes them.
  common::Result<void> log_metrics(const std::string& run_id, const nlohmann::json& metrics) const;
  common::Result<void> log_params(const std::string& run_id, const MlflowTexts& params) const;
  common::Result<void> set_tags(const std::string& run_id, const MlflowTexts& tags) const;

 private:
  common::Result<nlohmann::json> get(const std::string& path) const;
  common::Result<nlohmann::json> post(const std::string& path, nlohmann::json body) const;
  common::Result<void> log_batch(const std::string& run_id, const char* part,
                                 const nlohmann::json& entries) const;

  const MlflowServer server_;
  const std::stop_token stop_;
};

}  // namespace lockstep::runtime
