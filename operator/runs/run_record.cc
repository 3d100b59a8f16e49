#include "operator/runs/run_record.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "operator/runs/log_events.h"

namespace lockstep::runs {
namespace {

using nlohmann::json;

int64_t integer(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The object in `source`; null, with a word about it, for what is none. An absent file is fine.
json parse_object(const std::optional<std::string>& source, const char* name, RunRecord& run) {
  if (!source) return nullptr;
  json parsed = json::parse(*source, nullptr, false);
  if (parsed.is_object()) return parsed;
  run.troubles.push_back(std::string(name).append(" is not a JSON object"));
  return nullptr;
}

void add_line(const json& line, int64_t step, RunRecord& run) {
  for (const auto& [key, value] : line.items()) {
    if (value.is_number() && key != "step" && key != "slowest_rank") {
      run.series[key].push_back({step, value.get<double>()});
    }
  }
  if (line.value("skipped", json(false)) == json(true)) run.skipped_steps.push_back(step);
  const auto slowest = line.find("slowest_rank");
  if (slowest != line.end() && slowest->is_number_integer()) ++run.slowest[slowest->get<int64_t>()];
  run.last_step = std::max(run.last_step, step);
}

void parse_metrics(const std::string& metrics, RunRecord& run) {
  std::istringstream lines(metrics);
  int64_t number = 0, num_bad = 0, first_bad = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const json entry = json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("step") && entry["step"].is_number_integer()) {
      add_line(entry, entry["step"].get<int64_t>(), run);
    } else if (++num_bad == 1) {
      first_bad = number;
    }
  }
  if (num_bad > 0) {
    run.troubles.push_back("metrics.jsonl: " + std::to_string(num_bad) +
                           " unreadable lines left out, the first is line " +
                           std::to_string(first_bad));
  }
  const auto by_step = [](const Point& a, const Point& b) { return a.step < b.step; };
  bool was_sorted = true;
  for (auto& [key, points] : run.series) {
    if (std::is_sorted(points.begin(), points.end(), by_step)) continue;
    was_sorted = false;
    std::stable_sort(points.begin(), points.end(), by_step);
  }
  if (!was_sorted) run.troubles.emplace_back("metrics.jsonl: steps are out of order");
}

void parse_checkpoints(const RunFiles& files, RunRecord& run) {
  for (const CheckpointFiles& found : files.checkpoints) {
    const json parsed = json::parse(found.manifest, nullptr, false);
    const json* manifest =
        parsed.is_object() && parsed.contains("manifest") && parsed["manifest"].is_object()
            ? &parsed["manifest"]
            : nullptr;
    if (manifest == nullptr) {
      run.troubles.push_back("checkpoints/step-" + std::to_string(found.step) +
                             "/manifest.json is damaged");
      continue;
    }
    run.checkpoints.push_back({.step = found.step,
                               .bytes = found.bytes,
                               .attempt = integer(*manifest, "attempt"),
                               .ranks = integer(*manifest, "ranks"),
                               .strategy = text(*manifest, "strategy")});
    run.last_step = std::max(run.last_step, found.step);
    run.ranks = run.checkpoints.back().ranks;
    const json train = json::parse(text(*manifest, "train"), nullptr, false);
    if (train.is_object()) run.train = train;
    if (const auto commits = manifest->find("hubCommits");
        commits != manifest->end() && commits->is_object()) {
      for (const auto& [reference, commit] : commits->items()) {
        run.hub_commits[reference] = text(*commits, reference.c_str());
      }
    }
  }
}

// What a rank's termination message says; nothing if it has none of ours.
std::optional<RankExit> parse_exit(const RankLog& log) {
  const json message = json::parse(log.termination, nullptr, false);
  if (!message.is_object() || text(message, "reason").empty()) return std::nullopt;
  return RankExit{.rank = log.rank,
                  .step = integer(message, "step"),
                  .reason = text(message, "reason"),
                  .message = text(message, "message"),
                  .hint = text(message, "hint")};
}

// True if the rank's log has one of the events with which a rank ends well.
bool read_events(const RankLog& log, AttemptRecord& attempt) {
  bool ended_well = false;
  std::istringstream lines(log.text);
  for (std::string line; std::getline(lines, line);) {
    const std::optional<LogEvent> event = parse_log_line(line);
    if (!event) continue;
    const auto field = [&event](const char* key) {
      const auto found = event->fields.find(key);
      return found == event->fields.end() ? std::string() : found->second;
    };
    if (event->name == "memory" && field("when") == "end") ended_well = true;
    if (event->name == "finished" || event->name == "already finished") ended_well = true;
    if (event->name == "connected") attempt.backend = field("backend");
    if (log.rank != 0) continue;
    if (attempt.begin_time.empty()) attempt.begin_time = event->time;
    attempt.end_time = event->time;
    if (event->name == "strategy") attempt.strategy = field("strategy");
    if (event->name == "resumed") attempt.resumed_step = std::atoll(field("step").c_str());
    if (event->level == "warning") attempt.warnings.push_back(line.substr(event->time.size() + 1));
  }
  return ended_well;
}

void parse_attempts(const RunFiles& files, RunRecord& run) {
  for (const RankLog& log : files.logs) {
    if (run.attempts.empty() || run.attempts.back().attempt != log.attempt) {
      run.attempts.push_back({.attempt = log.attempt});
    }
    AttemptRecord& attempt = run.attempts.back();
    attempt.ranks.push_back(log.rank);
    const bool ended_well = read_events(log, attempt);
    if (std::optional<RankExit> exit = parse_exit(log)) {
      attempt.exits.push_back(std::move(*exit));
    } else if (!ended_well) {
      attempt.silent_ranks.push_back(log.rank);
    }
  }
  for (const AttemptRecord& attempt : run.attempts) {
    run.num_restarts = std::max(run.num_restarts, attempt.attempt);
  }
  for (const CheckpointRecord& checkpoint : run.checkpoints) {
    run.num_restarts = std::max(run.num_restarts, checkpoint.attempt);
  }
}

void conclude(RunRecord& run) {
  if (run.finished_step) {
    run.end = RunEnd::kFinished;
    return;
  }
  if (run.attempts.empty()) return;
  const AttemptRecord& last = run.attempts.back();
  run.failure = cause_of(last);
  if (run.failure) {
    run.end = RunEnd::kFailed;
  } else if (!last.exits.empty() && last.silent_ranks.empty()) {
    run.end = RunEnd::kStopped;  // every exit was Preempted
  }
}

}  // namespace

RunRecord parse_run(const RunFiles& files) {
  RunRecord run;
  run.folder = files.folder;
  run.has_model = files.has_model;
  run.troubles = files.unreadable;
  run.run = text(parse_object(files.run, "run.json", run), "run");
  if (files.metrics) parse_metrics(*files.metrics, run);
  parse_checkpoints(files, run);
  if (!files.job.empty()) {
    const json job = parse_object(files.job, "the job in logs/", run);
    run.job = text(job, "name");
    if (job.is_object() && job.contains("train") && job["train"].is_object()) {
      run.train = job["train"];
      run.ranks = integer(job, "ranks");
    }
  }
  if (run.train.is_object()) run.total_steps = integer(run.train, "steps");
  const json finished = parse_object(files.finished, "finished.json", run);
  if (finished.is_object()) {
    run.finished_step = integer(finished, "step");
    run.last_step = std::max(run.last_step, *run.finished_step);
    if (finished.contains("exportedStep")) run.exported_step = integer(finished, "exportedStep");
  }
  parse_attempts(files, run);
  conclude(run);
  return run;
}

std::optional<RankExit> cause_of(const AttemptRecord& attempt) {
  const auto is_cause = [](const RankExit& exit) {
    return exit.reason != "PeerLost" && exit.reason != "Preempted";
  };
  const auto found = std::find_if(attempt.exits.begin(), attempt.exits.end(), is_cause);
  if (found != attempt.exits.end()) return *found;
  const auto lost = std::find_if(attempt.exits.begin(), attempt.exits.end(),
                                 [](const RankExit& exit) { return exit.reason == "PeerLost"; });
  if (lost == attempt.exits.end()) return std::nullopt;
  if (attempt.silent_ranks.empty()) return *lost;
  return RankExit{.rank = attempt.silent_ranks.front(),
                  .step = lost->step,
                  .reason = "Killed",
                  .message = "ended without a word; rank " + std::to_string(lost->rank) +
                             " then missed it: " + lost->message,
                  .hint = "the kernel's log tells whether memory ran out: dmesg | grep -i oom"};
}

const std::vector<Point>& series_of(const RunRecord& run, const std::string& key) {
  static const std::vector<Point> none;
  const auto found = run.series.find(key);
  return found == run.series.end() ? none : found->second;
}

std::optional<double> median(const std::vector<Point>& points) {
  if (points.empty()) return std::nullopt;
  std::vector<double> values;
  values.reserve(points.size());
  for (const Point& point : points) values.push_back(point.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace lockstep::runs
