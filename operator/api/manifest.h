// A user's file as a TrainingJob: a manifest, or a bare training configuration.
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "runtime/common/problem.h"
#include "runtime/common/result.h"

namespace lockstep::api {

struct Manifest {             // NOLINT(bugprone-exception-escape): json moves without throwing
  TrainingJob job;            // complete only if !has_errors(problems)
  nlohmann::json metadata;    // as the file has it
  nlohmann::json spec;        // after defaults and overrides
  common::Problems problems;  // all of them, with lines
  std::vector<std::string> resolved;  // what was decided for the user, for people
  int64_t num_other_documents = 0;    // documents of the file that are no TrainingJob
  bool bare_train = false;            // the file was a training configuration alone
};

struct ManifestOptions {
  std::string file_name;            // names the job of a bare training configuration
  std::vector<std::string> sets{};  // "path=value": path starts at spec, value is YAML
};

// Reads a manifest from text: one TrainingJob among any other documents, or the keys of `train`
// alone (then ranks = 1 and the name comes from the file's). Pure; never throws.
Manifest parse_manifest(const std::string& text, const ManifestOptions& options);

// The text of a configuration. Errors: kNotFound, kPermissionDenied, kInvalidArgument (a folder, or
// larger than 4 MiB).
common::Result<std::string> read_config_file(const std::string& path);

// parse_manifest() of the file at `path`. Errors as of read_config_file().
common::Result<Manifest> load_manifest(const std::string& path,
                                       const std::vector<std::string>& sets);

// A valid job name made of a file's name: "My_Run.train.yaml" -> "my-run-train".
std::string job_name_from_file(const std::string& path);

}  // namespace lockstep::api
