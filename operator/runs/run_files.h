// What lies in a run's output folder, as texts. The formats are in runtime/README.md ("Output").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::runs {

struct CheckpointFiles {
  int64_t step = 0;
  int64_t bytes = 0;
  std::string manifest;  // text; empty if it could not be read
};

// What one rank left in one attempt. Only local runs keep logs in the output.
struct RankLog {
  int64_t attempt = 0;
  int64_t rank = 0;
  std::string text;         // begin and end of a long one
  std::string termination;  // the termination message; empty if the rank left none
};

struct RunFiles {
  std::string folder;  // as the user named it
  std::optional<std::string> metrics, run, finished;
  std::string job;                           // newest logs/<job>-<attempt>.json; empty if none
  std::vector<CheckpointFiles> checkpoints;  // in ascending step
  std::vector<RankLog> logs;                 // by attempt, then rank
  bool has_model = false;
  std::vector<std::string> unreadable;  // "PATH: why"
};

// Reads the folder; what cannot be read is left out and named in `unreadable`.
// Errors: kNotFound if `folder` is not there; kInvalidArgument if it is no folder, or holds nothing
// that a run leaves.
common::Result<RunFiles> read_run_files(const std::string& folder);

}  // namespace lockstep::runs
