// OUTPUT/metrics.jsonl: one line per logged step, ever. Rank 0 writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/train/busy_skew.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

inline constexpr char kMetricsFileName[] = "metrics.jsonl";

// What is told about the steps since the last line.
struct LoggedStep {
  StepStats last;
  // Means since the last line.
  double step_seconds = 0;
  common::StepParts parts{};
  BusySkew busy;
  StepCost cost;
  common::MemoryUse memory;  // of this rank, now
};

// One line without its end. Loss and the like carry all digits. What a step computes comes first
// and ends with `loss_tokens`; all that follows was measured, and differs from run to run.
std::string encode_metrics_line(const LoggedStep& logged);

// The line of an evaluation, without its end; it follows the line of its step, if that is logged.
std::string encode_metrics_line(const Evaluation& evaluation);

// Appends lines; CheckpointSaver syncs them. Whoever constructs it has cut the file back to the
// step that training starts at.
class MetricsFile {
 public:
  static common::Result<MetricsFile> open(const std::string& output);
  ~MetricsFile();
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&& other) noexcept;

  common::Result<void> append(const LoggedStep& logged);
  common::Result<void> append(const Evaluation& evaluation);

 private:
  MetricsFile(std::string path, int descriptor);
  common::Result<void> append_line(const std::string& text);

  std::string path_;
  int descriptor_ = -1;
};

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};
// The losses in OUTPUT/metrics.jsonl, in order; lines that cannot be read are left out.
std::vector<LossPoint> read_losses(const std::string& output);
// The same of evaluations.
std::vector<LossPoint> read_validation_losses(const std::string& output);

}  // namespace lockstep::runtime
