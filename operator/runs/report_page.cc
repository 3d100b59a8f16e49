#include "operator/runs/report_page.h"

#include <algorithm>
#include <cstdio>

#include "operator/runs/chart.h"
#include "operator/runs/html_text.h"
#include "operator/runs/report_style.h"
#include "runtime/common/step_parts.h"

namespace lockstep::runs {
namespace {

using nlohmann::json;

struct EndWords {
  const char* style;
  const char* word;
};

EndWords words_of(RunEnd end) {
  switch (end) {
    case RunEnd::kFinished:
      return {"finished", "finished"};
    case RunEnd::kFailed:
      return {"failed", "failed"};
    case RunEnd::kStopped:
      return {"stopped", "stopped at a checkpoint"};
    case RunEnd::kUnfinished:
      break;
  }
  return {"unfinished", "not finished"};
}

std::string fact(const std::string& name, const std::string& value) {
  return "<div><b>" + html_text(value) + "</b><small>" + html_text(name) + "</small></div>";
}

std::string steps_text(const RunRecord& run) {
  const std::string last = std::to_string(run.last_step);
  return run.total_steps > 0 ? last + " / " + std::to_string(run.total_steps) : last;
}

std::string draw_facts(const RunRecord& run) {
  std::string html = fact("steps", steps_text(run));
  const std::vector<Point>& losses = series_of(run, "loss");
  if (!losses.empty()) {
    html +=
        fact("loss, from " + short_number(losses.front().value), short_number(losses.back().value));
  }
  const std::vector<Point>& validation = series_of(run, "validation_loss");
  if (!validation.empty()) {
    const auto best =
        std::min_element(validation.begin(), validation.end(),
                         [](const Point& a, const Point& b) { return a.value < b.value; });
    html += fact("lowest validation loss, step " + std::to_string(best->step),
                 short_number(best->value));
  }
  if (const auto speed = median(series_of(run, "tokens_per_second"))) {
    html += fact("tokens/s, median", short_number(*speed));
  }
  if (const auto seconds = median(series_of(run, "step_seconds"))) {
    html += fact("seconds a step, median", short_number(*seconds, 3));
  }
  if (const auto use = median(series_of(run, "mfu"))) {
    html += fact("of the peak FLOP/s, median", short_number(100 * *use, 3) + " %");
  }
  if (!series_of(run, "resident_peak_bytes").empty()) {
    const double peak = series_of(run, "resident_peak_bytes").back().value;
    html += fact("peak memory of rank 0", short_bytes(peak));
  }
  if (run.ranks > 0) html += fact("ranks", std::to_string(run.ranks));
  html += fact("restarts", std::to_string(run.num_restarts));
  if (!run.skipped_steps.empty()) {
    html += fact("steps skipped, not finite", std::to_string(run.skipped_steps.size()));
  }
  return "<div class=\"facts\">" + html + "</div>\n";
}

std::string draw_failure(const RunRecord& run) {
  if (!run.failure) return "";
  const RankExit& exit = *run.failure;
  std::string html = "<div class=\"trouble\"><b>" + html_text(exit.reason) + "</b> of rank " +
                     std::to_string(exit.rank) + " after step " + std::to_string(exit.step) +
                     "<pre>" + html_text(exit.message) + "</pre>";
  if (!exit.hint.empty()) html += "<p>" + html_text(exit.hint) + "</p>";
  return html + "</div>\n";
}

std::string draw_troubles(const RunRecord& run) {
  if (run.troubles.empty()) return "";
  std::string html = "<div class=\"trouble\"><b>Not everything could be read</b><ul>";
  for (const std::string& trouble : run.troubles) html += "<li>" + html_text(trouble) + "</li>";
  return html + "</ul></div>\n";
}

// Values in milliseconds.
std::vector<Point> milliseconds(std::vector<Point> points) {
  for (Point& point : points) point.value *= 1000;
  return points;
}

Chart phases(const RunRecord& run) {
  Chart chart{.title = "Where a step's time goes, rank 0",
              .unit = "ms",
              .is_stacked = true,
              .cuts_peaks = true};
  for (const std::string_view part : common::kStepPartNames) {
    const std::string key = std::string(part).append("_seconds");
    chart.lines.push_back({std::string(part), milliseconds(series_of(run, key))});
  }
  return chart;
}

std::string draw_charts(const RunRecord& run) {
  const auto line = [&run](const char* name, const char* key) {
    return ChartLine{name, series_of(run, key)};
  };
  std::vector<Chart> charts = {
      {.title = "Loss", .lines = {line("training", "loss"), line("validation", "validation_loss")}},
      {.title = "Learning rate", .lines = {line("rate", "learning_rate")}, .from_zero = true},
      {.title = "Gradient norm", .lines = {line("norm", "grad_norm")}, .from_zero = true},
      {.title = "Throughput",
       .unit = "tokens/s",
       .lines = {line("tokens/s", "tokens_per_second")},
       .from_zero = true},
      phases(run),
      {.title = "Memory of rank 0",
       .lines = {line("resident", "resident_bytes"), line("buffers", "buffer_bytes")},
       .from_zero = true,
       .is_bytes = true},
      {.title = "Work of the ranks in a step",
       .unit = "ms",
       .lines = {{"slowest rank", milliseconds(series_of(run, "busy_seconds_max"))},
                 {"median", milliseconds(series_of(run, "busy_seconds_median"))},
                 {"fastest rank", milliseconds(series_of(run, "busy_seconds_min"))}},
       .from_zero = true,
       .cuts_peaks = true}};
  if (!series_of(run, "loss_scale").empty()) {
    charts.push_back({.title = "Loss scale of fp16", .lines = {line("scale", "loss_scale")}});
  }
  std::string html;
  for (Chart& chart : charts) {
    for (const AttemptRecord& attempt : run.attempts) {
      if (attempt.resumed_step) chart.marks.push_back(*attempt.resumed_step);
    }
    html += draw_chart(chart);
  }
  return "<h2>Over the steps</h2><div class=\"charts\">\n" + html + "</div>\n";
}

std::string row(const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += "<td>" + html_text(cell) + "</td>";
  return html + "</tr>\n";
}

std::string draw_table(const std::vector<std::string>& heads, const std::string& rows) {
  std::string html = "<div class=\"scroll\"><table><tr>";
  for (const std::string& head : heads) html += "<th>" + html_text(head) + "</th>";
  return html + "</tr>\n" + rows + "</table></div>\n";
}

std::string end_of(const RunRecord& run, const AttemptRecord& attempt) {
  if (const std::optional<RankExit> cause = cause_of(attempt)) {
    return "rank " + std::to_string(cause->rank) + ": " + cause->reason + " (" + cause->message +
           ")";
  }
  if (!attempt.exits.empty()) return "stopped on request";
  if (attempt.silent_ranks.empty()) return "done";
  return &attempt == &run.attempts.back() && run.end == RunEnd::kUnfinished
             ? "at work, or killed without a word"
             : "ended without a word";
}

std::string draw_attempts(const RunRecord& run) {
  if (run.attempts.empty()) return "";
  std::string rows;
  for (const AttemptRecord& one : run.attempts) {
    rows += row({std::to_string(one.attempt), one.begin_time, one.end_time,
                 std::to_string(one.ranks.size()), one.strategy, one.backend,
                 one.resumed_step ? "step " + std::to_string(*one.resumed_step) : "the beginning",
                 end_of(run, one)});
  }
  std::string html = "<h2>Attempts</h2>" + draw_table({"attempt", "began", "last word", "ranks",
                                                       "strategy", "backend", "from", "end"},
                                                      rows);
  for (const AttemptRecord& one : run.attempts) {
    for (const std::string& warning : one.warnings) html += "<pre>" + html_text(warning) + "</pre>";
  }
  return html;
}

std::string draw_skew(const RunRecord& run) {
  if (run.slowest.size() < 2 && run.ranks < 2) return "";
  int64_t all = 0;
  for (const auto& [rank, steps] : run.slowest) all += steps;
  if (all == 0) return "";
  std::string rows;
  for (const auto& [rank, steps] : run.slowest) {
    const double share = 100 * static_cast<double>(steps) / static_cast<double>(all);
    rows += row({std::to_string(rank), std::to_string(steps), short_number(share, 3) + " %"});
  }
  return "<h2>Which rank was slowest</h2>" +
         draw_table({"rank", "logged steps in which it was", "share"}, rows);
}

std::string draw_checkpoints(const RunRecord& run) {
  if (run.checkpoints.empty()) return "";
  std::string rows;
  for (const CheckpointRecord& one : run.checkpoints) {
    rows += row({std::to_string(one.step), std::to_string(one.attempt), std::to_string(one.ranks),
                 one.strategy, short_bytes(static_cast<double>(one.bytes))});
  }
  return "<h2>Checkpoints that are kept</h2>" +
         draw_table({"step", "attempt", "written by ranks", "strategy", "size"}, rows);
}

std::string draw_samples(const RunRecord& run) {
  if (run.samples.empty()) return "";
  std::string html = "<h2>Samples, the likeliest word after word</h2>\n";
  for (const std::string& sample : run.samples) html += "<pre>" + html_text(sample) + "</pre>\n";
  return html;
}

std::string draw_configuration(const RunRecord& run) {
  if (!run.train.is_object() || run.train.empty()) return "";
  std::string rows;
  const json flat = run.train.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    std::string path = pointer.substr(1);
    std::replace(path.begin(), path.end(), '/', '.');
    rows +=
        "<tr><td>train." + html_text(path) + "</td><td class=\"value\">" +
        html_text(value.is_string() ? value.get<std::string>()
                                    : value.dump(-1, ' ', false, json::error_handler_t::replace)) +
        "</td></tr>\n";
  }
  for (const auto& [reference, commit] : run.hub_commits) {
    rows += "<tr><td>commit of " + html_text(reference) + "</td><td class=\"value\">" +
            html_text(commit) + "</td></tr>\n";
  }
  return "<h2>Configuration</h2><details open><summary>" + std::to_string(flat.size()) +
         " fields, defaults included</summary>" + draw_table({"field", "value"}, rows) +
         "</details>\n";
}

}  // namespace

std::string next_command(const RunRecord& run) {
  const std::string go_on = "lockstep run JOB.yaml --output " + run.folder;
  switch (run.end) {
    case RunEnd::kFinished:
      if (run.has_model) return "lockstep generate --model " + run.folder + "/model --prompt TEXT";
      return "lockstep run JOB.yaml --output " + run.folder + " --resume --set train.steps=N";
    case RunEnd::kFailed:
    case RunEnd::kStopped:
    case RunEnd::kUnfinished:
      break;
  }
  return run.checkpoints.empty() ? go_on + " --overwrite" : go_on;
}

std::string report_page(const RunRecord& run) {
  const EndWords end = words_of(run.end);
  const std::string name = run.job.empty() ? run.folder : run.job;
  std::string next = run.end == RunEnd::kFinished ? "Next: " : "To go on: ";
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'\"><meta name=\"viewport\" content=\"width=device-width\"><title>" +
         html_text(name) + " - " + end.word + "</title><style>" + kReportStyle +
         "</style></head><body>\n<h1>" + html_text(name) + " <span class=\"badge " + end.style +
         "\">" + end.word + "</span></h1><p class=\"soft\">" + html_text(run.folder) +
         (run.run.empty() ? "" : ", run " + html_text(run.run)) + "</p>\n" + draw_failure(run) +
         draw_troubles(run) + "<p>" + next + "<code>" + html_text(next_command(run)) +
         "</code></p>\n" + draw_facts(run) + draw_samples(run) + draw_charts(run) + draw_skew(run) +
         draw_attempts(run) + draw_checkpoints(run) + draw_configuration(run) +
         "<p class=\"soft\">written by lockstep report</p></body></html>\n";
}

}  // namespace lockstep::runs
