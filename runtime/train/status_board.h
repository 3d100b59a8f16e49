// What a rank shows of itself: /status, /metrics and /healthz.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/common/http_server.h"
#include "runtime/common/metrics.h"
#include "runtime/common/progress.h"
#include "runtime/common/step_parts.h"
#include "runtime/train/gpu_utilization.h"
#include "runtime/train/pair_figures.h"

namespace lockstep::runtime {

// How far a rank is with the phase of a save: Note [Saving behind training].
enum class SaveProgress { kNone, kBusy, kDone, kFailed };

// Time that a save took from training.
struct StandStill {
  double seconds = 0;
  bool for_the_save_before = false;  // which was not yet published
};

// One finished step, as all ranks know it.
struct StepStats {
  int64_t step = 0;  // counted from 1
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t step_tokens = 0;           // places of the global batch
  int64_t loss_tokens = 0;           // those of them that have a label
  int64_t run_tokens = 0;            // places of all steps so far, those of earlier attempts too
  double step_seconds = 0;           // wall time on this rank
  std::vector<double> busy_seconds;  // by rank: work in the step, without waits for the others
  bool stop = false;                 // a rank was asked to stop
  bool skipped = false;              // loss or gradient were not finite: no update was made
  int64_t skipped_steps = 0;         // of the run
  std::optional<double> loss_scale;  // that the step ran with; only in fp16
  std::optional<PairFigures> pairs;  // means over the pairs of the global batch, if it has pairs
  std::vector<SaveProgress> saves;   // by rank: of the checkpoint under way
  common::StepParts parts{};         // of step_seconds
};

// What a step costs, for FLOP/s and utilisation.
struct StepCost {
  double flops = 0;                  // model FLOPs of all ranks; 0 = unknown
  double peak_flops_per_second = 0;  // of all ranks; 0 = unknown
};

// One measurement of the validation loss, the same on all ranks but for the time.
struct Evaluation {
  int64_t step = 0;  // after how many steps
  double loss = 0;   // mean over all labels, or pairs, of the validation data
  int64_t loss_tokens = 0;
  double seconds = 0;                // wall time on this rank
  std::optional<PairFigures> pairs;  // as StepStats::pairs, of the validation data
};

// "2.3146999999999998": all digits of a double, so that texts are equal if and only if values are.
std::string with_all_digits(double value);

// Keeps the latest state of a rank. Written by the training thread, read by the HTTP server's.
class StatusBoard {
 public:
  StatusBoard(std::string job, int attempt, int rank);

  // As in common::JobProgress, with how far its work is, if that is known. A sign of life.
  void set_phase(const std::string& phase,
                 const std::optional<common::PhaseProgress>& progress = std::nullopt);
  void set_plan(const std::string& strategy, int64_t step, int64_t total_steps);
  // What carries this rank's bytes: Topology::backend.
  void set_backend(const std::string& backend);
  void set_cost(const StepCost& cost);
  // The metrics page asks `gpu` at every scrape. Call it before the routes are served.
  void watch_gpu(GpuUtilization gpu);
  void step_done(const StepStats& stats);
  void set_snapshot_bytes(int64_t bytes);
  void training_stood_still(const StandStill& stand_still);
  void evaluation_done(const Evaluation& evaluation);
  void checkpoint_done(int64_t step, double seconds);

  common::JobProgress progress() const;
  // The routes to serve; they borrow this object.
  std::map<std::string, common::HttpHandler> routes();

 private:
  using Clock = std::chrono::steady_clock;

  prometheus::Gauge& gauge(const std::string& name, const std::string& help);
  prometheus::Counter& part_counter(common::StepPart part);
  void show_speed(const StepStats& stats);
  void show_ranks(const StepStats& stats);
  void show_step(const StepStats& stats);
  std::string metrics_page();

  const std::string rank_label_;
  common::Metrics metrics_;
  prometheus::Counter& tokens_total_;
  prometheus::Histogram& step_seconds_;
  std::array<prometheus::Counter*, common::kNumStepParts> part_seconds_{};

  mutable std::mutex mutex_;
  common::JobProgress progress_;   // guarded by mutex_
  Clock::time_point last_change_;  // guarded by mutex_
  double mean_step_seconds_ = 0;   // guarded by mutex_; moving average
  StepCost cost_;                  // guarded by mutex_

  std::optional<GpuUtilization> gpu_;
};

}  // namespace lockstep::runtime
