// Whose logs to print, and in which order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/cli/explain_job.h"

namespace lockstep::cli {

struct LogWish {
  bool all_ranks = false;
  int64_t rank = -1;     // < 0: the first failing rank, or rank 0
  int64_t attempt = -1;  // < 0: of the failure, or the newest that has pods
};

struct LogSource {
  std::string pod;
  std::string prefix;  // of every line: "[rank 3] "; empty for one pod alone
};

// The pods to read, the one of the first failing rank before all others, which come by rank. A
// failed attempt whose pod was kept counts as long as no newer attempt runs. Empty: there is none.
std::vector<LogSource> choose_logs(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                                   const LogWish& wish);

}  // namespace lockstep::cli
