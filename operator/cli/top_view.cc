#include "operator/cli/top_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "operator/api/codec.h"
#include "operator/cli/job_table.h"
#include "operator/plan/status.h"

namespace lockstep::cli {
namespace {

constexpr int kCurveWidth = 16;

std::string state_of_run(const runs::RunRecord& run, bool is_at_work) {
  if (is_at_work) return run.last_step > 0 ? "Running" : "Starting";
  switch (run.end) {
    case runs::RunEnd::kFinished:
      return "Succeeded";
    case runs::RunEnd::kFailed:
      return "Failed";
    case runs::RunEnd::kStopped:
      return "Suspended";
    case runs::RunEnd::kUnfinished:
      return "Killed";
  }
  return "";
}

// Shown for as long as it takes to mend it; a run that goes on has overcome it.
std::optional<api::FirstFailure> failure_of(const runs::RunRecord& run) {
  if (!run.failure) return std::nullopt;
  api::FirstFailure failure;
  failure.rank = run.failure->rank;
  failure.step = run.failure->step;
  failure.reason = run.failure->reason;
  failure.message = run.failure->message;
  failure.hint = run.failure->hint;
  return failure;
}

std::optional<int64_t> seconds_left(const runs::RunRecord& run) {
  const std::optional<double> step = runs::median(runs::series_of(run, "step_seconds"));
  if (!step || run.total_steps < run.last_step) return std::nullopt;
  return std::llround(*step * static_cast<double>(run.total_steps - run.last_step));
}

// `line` cut to `width` characters, of which a UTF-8 sequence is one.
std::string cut_to(const std::string& line, int width) {
  if (width <= 0) return line;
  int seen = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;
    if (begins && ++seen > width) return line.substr(0, at);
  }
  return line;
}

std::string summary_of(const std::vector<TopRow>& rows) {
  const auto runs = std::count_if(rows.begin(), rows.end(), [](const TopRow& row) {
    return row.job.status.state == "Running";
  });
  double tokens = 0;
  for (const TopRow& row : rows) {
    const auto& progress = row.job.status.progress;
    if (progress && row.job.status.state == "Running") {
      tokens += static_cast<double>(progress->tokens_per_second);
    }
  }
  std::ostringstream text;
  text << "lockstep top: " << rows.size() << (rows.size() == 1 ? " job, " : " jobs, ") << runs
       << " running";
  if (tokens > 0) text << ", " << std::llround(tokens) << " tokens/s";
  return text.str();
}

std::vector<std::vector<std::string>> table_of(const TopPage& page, const TopLayout& layout) {
  const TableOptions options{.wide = true, .with_namespace = false, .now = layout.now};
  std::vector<std::vector<std::string>> table = {job_columns(options)};
  for (const TopRow& row : page.rows) table.push_back(job_row(row.job, options));
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i].pop_back();  // the message: it has a line of its own where it matters
    if (!layout.has_curves) continue;
    table[i].push_back(i == 0 ? "LOSS CURVE" : sparkline(page.rows[i - 1].losses, kCurveWidth));
  }
  return table;
}

}  // namespace

TopRow row_of_run(const runs::RunRecord& run, bool is_at_work) {
  TopRow row;
  row.job.meta.name = run.folder;
  api::TrainingJobStatus& status = row.job.status;
  status.state = state_of_run(run, is_at_work);
  status.restarts = run.num_restarts;
  status.ranks.desired = run.ranks;
  status.ranks.running = is_at_work ? run.ranks : 0;
  if (!run.attempts.empty()) {
    status.strategy = run.attempts.back().strategy;
    row.job.meta.creation_time = api::parse_time(run.attempts.front().begin_time);
  }
  for (const runs::Point& point : runs::series_of(run, "loss")) row.losses.push_back(point.value);
  api::ProgressStatus progress;
  progress.step = run.last_step;
  progress.total_steps = run.total_steps;
  if (!row.losses.empty()) progress.loss = std::to_string(row.losses.back());
  const std::vector<runs::Point>& speeds = runs::series_of(run, "tokens_per_second");
  if (!speeds.empty() && is_at_work) progress.tokens_per_second = std::llround(speeds.back().value);
  if (is_at_work) progress.eta_seconds = seconds_left(run);
  if (!run.checkpoints.empty()) progress.last_checkpoint_step = run.checkpoints.back().step;
  status.progress = progress;
  if (!is_at_work) status.first_failure = failure_of(run);
  return row;
}

std::string sparkline(const std::vector<double>& values, int width) {
  constexpr std::array<const char*, 8> kHeights = {"\xE2\x96\x81", "\xE2\x96\x82", "\xE2\x96\x83",
                                                   "\xE2\x96\x84", "\xE2\x96\x85", "\xE2\x96\x86",
                                                   "\xE2\x96\x87", "\xE2\x96\x88"};
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty() || width <= 0) return "";
  const auto columns = std::min(static_cast<std::size_t>(width), finite.size());
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double range = *high - *low;
  std::string text;
  for (std::size_t column = 0; column < columns; ++column) {
    // The last value of the column's share, so that the newest one is always shown.
    const double value = finite[(column + 1) * finite.size() / columns - 1];
    const double height = range > 0 ? (value - *low) / range : 0;
    text += kHeights[static_cast<std::size_t>(height * 7 + 0.5)];
  }
  return text;
}

std::string render_top(const TopPage& page, const TopLayout& layout) {
  std::string text = summary_of(page.rows) + "\n\n";
  if (!page.rows.empty()) text += render_table(table_of(page, layout));
  for (const TopRow& row : page.rows) {
    const auto& failure = row.job.status.first_failure;
    if (!failure || row.job.status.state == "Succeeded") continue;
    text += "\n" + row.job.meta.name + ": " + plan::summarize(*failure);
    if (!failure->hint.empty()) text += " (" + failure->hint + ")";
  }
  for (const std::string& trouble : page.troubles) text += "\n" + trouble;
  if (!text.ends_with('\n')) text += '\n';
  std::istringstream lines(text);
  std::string out;
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (layout.height > 0 && ++count > layout.height) break;
    out += cut_to(line, layout.width) + "\n";
  }
  return out;
}

}  // namespace lockstep::cli
