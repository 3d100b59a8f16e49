// A run as its output folder tells it. Pure: from texts to values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/runs/run_files.h"

namespace lockstep::runs {

struct Point {
  int64_t step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

struct CheckpointRecord {
  int64_t step = 0, bytes = 0;
  int64_t attempt = 0, ranks = 0;
  std::string strategy;
};

// How a rank went out, by its own words.
struct RankExit {
  int64_t rank = 0, step = 0;
  std::string reason, message, hint;
};

struct AttemptRecord {
  int64_t attempt = 0;
  std::vector<int64_t> ranks;         // that left a log
  std::vector<RankExit> exits;        // that ended with a termination message
  std::vector<int64_t> silent_ranks;  // that neither finished nor said why they ended
  std::optional<int64_t> resumed_step;
  std::string strategy, backend;
  std::string begin_time, end_time;  // of rank 0's log; empty if it has no line of ours
  std::vector<std::string> warnings;
};

// kUnfinished: at work, or killed without a word.
enum class RunEnd { kFinished, kFailed, kStopped, kUnfinished };

struct RunRecord {
  std::string folder, job, run;
  RunEnd end = RunEnd::kUnfinished;
  // Of the first failure that counts, in the last attempt; a restarted one is in `attempts`.
  std::optional<RankExit> failure;
  std::optional<int64_t> finished_step, exported_step;
  int64_t last_step = 0;    // that metrics, checkpoints or finished.json know of
  int64_t total_steps = 0;  // of the configuration; 0 = not told
  int64_t ranks = 0;        // 0 = not told
  // The numbers of metrics.jsonl by key, in ascending step.
  std::map<std::string, std::vector<Point>> series;
  std::vector<int64_t> skipped_steps;
  std::map<int64_t, int64_t> slowest;  // rank -> logged steps in which it was slowest
  std::vector<CheckpointRecord> checkpoints;
  std::vector<AttemptRecord> attempts;  // of which something is known, in order
  int64_t num_restarts = 0;
  nlohmann::json train;                            // the configuration; null if it is nowhere
  std::map<std::string, std::string> hub_commits;  // "hf://ORG/NAME@REVISION" -> commit, if any
  bool has_model = false;
  // What its model goes on with after texts, each with its prompt in front; who asks it fills them
  // in, for the files do not hold them.
  std::vector<std::string> samples{};
  std::vector<std::string> troubles;  // what could not be read, for people
};

RunRecord parse_run(const RunFiles& files);

// Why an attempt ended; nothing if no rank failed. A rank that only lost its peers is not the cause
// while another is known, or one that left no word.
std::optional<RankExit> cause_of(const AttemptRecord& attempt);

// The values of `key`; empty if no line has it.
const std::vector<Point>& series_of(const RunRecord& run, const std::string& key);
// Of the values; nothing without any.
std::optional<double> median(const std::vector<Point>& points);

}  // namespace lockstep::runs
