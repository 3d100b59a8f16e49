// Tables as kubectl prints them.
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"

namespace lockstep::cli {

// Rows of equal length, columns three blanks apart and as wide as their widest text.
std::string render_table(const std::vector<std::vector<std::string>>& rows);

struct TableOptions {
  bool wide = false;
  bool with_namespace = false;
  api::Time now{};
};
// The columns of `kubectl get trainingjobs`.
std::vector<std::string> job_columns(const TableOptions& options);
std::vector<std::string> job_row(const api::TrainingJob& job, const TableOptions& options);

}  // namespace lockstep::cli
