// What a finished run left behind, for the person who started it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/common/step_parts.h"

namespace lockstep::cli {

struct RunSummary {
  int64_t first_step = 0, last_step = 0;
  double first_loss = 0, last_loss = 0;
  // Medians over the logged steps.
  double tokens_per_second = 0;
  double step_seconds = 0;         // 0 = not told
  common::StepParts step_parts{};  // seconds
};

// From the text of a metrics.jsonl; nothing if it has no complete line. A torn last line is
// ignored.
std::optional<RunSummary> summarize_metrics(const std::string& metrics_jsonl);

// The lines that `lockstep run` prints after success: losses, speed, where a step's time went,
// where the outputs lie (those that exist below `output`).
std::string render_summary(const RunSummary& summary, const std::string& output);

}  // namespace lockstep::cli
