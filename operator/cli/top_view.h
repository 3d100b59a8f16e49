// What `lockstep top` shows: runs of this machine and jobs of a cluster in one table. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/runs/run_record.h"

namespace lockstep::cli {

struct TopRow {
  api::TrainingJob job;        // of a local run: what its folder tells, in the same words
  std::vector<double> losses;  // in the order of steps
};

// A run as the job that a cluster would show.
//   is_at_work: somebody holds its folder.
TopRow row_of_run(const runs::RunRecord& run, bool is_at_work);

struct TopPage {
  std::vector<TopRow> rows;
  std::vector<std::string> troubles;  // what could not be looked at
};

struct TopLayout {
  int width = 0;   // columns; 0: as wide as it is
  int height = 0;  // lines; 0: all
  bool has_curves = false;
  api::Time now{};
};

// A line about all, a table, and under it a line for every failure and trouble. Lines end with a
// line's end and are cut, in characters, where the layout says so.
std::string render_top(const TopPage& page, const TopLayout& layout);

// `values` in `width` characters of eight heights, the newest at the right; empty without any.
std::string sparkline(const std::vector<double>& values, int width);

}  // namespace lockstep::cli
