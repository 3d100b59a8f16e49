#include "operator/cli/job_table.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "operator/api/codec.h"

namespace lockstep::cli {

namespace {

std::string or_none(const std::string& text) {
  return text.empty() ? "<none>" : text;
}

std::string number(std::optional<int64_t> value) {
  return value ? std::to_string(*value) : "<none>";
}

std::string fraction(int64_t part, int64_t whole) {
  return std::to_string(part).append("/").append(std::to_string(whole));
}

}  // namespace

std::string render_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 3, ' ');
    }
    text += '\n';
  }
  return text;
}

std::vector<std::string> job_columns(const TableOptions& options) {
  std::vector<std::string> columns = {"NAME",  "STATE", "STEP",     "LOSS",
                                      "TOK/S", "ETA",   "RESTARTS", "AGE"};
  if (options.with_namespace) columns.insert(columns.begin(), "NAMESPACE");
  if (options.wide) columns.insert(columns.end(), {"RANKS", "STRATEGY", "LAST-CKPT", "MESSAGE"});
  return columns;
}

std::vector<std::string> job_row(const api::TrainingJob& job, const TableOptions& options) {
  const api::TrainingJobStatus& status = job.status;
  const std::optional<api::ProgressStatus>& progress = status.progress;
  std::vector<std::string> row = {job.meta.name, or_none(status.state)};
  if (progress) {
    row.insert(
        row.end(),
        {fraction(progress->step, progress->total_steps), or_none(api::format_loss(progress->loss)),
         number(progress->tokens_per_second),
         progress->eta_seconds ? api::format_duration(std::chrono::seconds(*progress->eta_seconds))
                               : "<none>"});
  } else {
    row.insert(row.end(), 4, "<none>");
  }
  row.push_back(std::to_string(status.restarts));
  row.push_back(job.meta.creation_time ? api::format_duration(options.now - *job.meta.creation_time)
                                       : "<unknown>");
  if (options.with_namespace) row.insert(row.begin(), job.meta.ns);
  if (options.wide) {
    row.insert(row.end(),
               {fraction(status.ranks.running, status.ranks.desired), or_none(status.strategy),
                number(progress ? progress->last_checkpoint_step : std::nullopt), status.message});
  }
  return row;
}

}  // namespace lockstep::cli
