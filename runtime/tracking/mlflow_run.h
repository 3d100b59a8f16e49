// Tells an MLflow server of a run: parameters, tags, the lines of metrics.jsonl, and how it ended,
// from a thread of its own. Training never waits for it, and no fault of the server ends a run.
//
// Note [One run of MLflow]
// An output has one run of MLflow, whatever is killed or resumed: its id is in OUTPUT/mlflow.json,
// and so is the key by which it is looked for before it is created, so that neither a lost answer
// nor a rank killed in between makes a second one. That file also says how far the run was told;
// what a server that was away has missed is in metrics.jsonl, and the next attempt tells it.
// Overwriting the output, another server or experiment, or other settings from step 0 on begin a
// new run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/log.h"
#include "runtime/common/mlflow_config.h"
#include "runtime/tracking/mlflow_batch.h"
#include "runtime/tracking/mlflow_call.h"
#include "runtime/tracking/mlflow_client.h"
#include "runtime/tracking/mlflow_state.h"
#include "runtime/tracking/mlflow_tail.h"

namespace lockstep::runtime {

struct MlflowRunOptions {
  MlflowServer server;
  common::MlflowConfig config;
  std::string output;  // LOCKSTEP_OUTPUT
  std::string run;     // identity and attempt, for check_fence()
  int64_t attempt = 0;
  std::string name;       // of the run, unless the configuration has one
  nlohmann::json params;  // {"ranks", "train"} of the job; told once
  // Between two batches; after the first fruitless try, doubled with each until the longest.
  std::chrono::milliseconds pace{1000};
  std::chrono::milliseconds first_pause{1000};
  std::chrono::milliseconds longest_pause{60000};
};

class MlflowRun {
 public:
  // Says nothing before start(). `disk` must outlive it.
  MlflowRun(MlflowRunOptions options, common::Log log, Disk& disk);
  // Ends at once, whatever was not told.
  ~MlflowRun();
  MlflowRun(const MlflowRun&) = delete;
  MlflowRun& operator=(const MlflowRun&) = delete;

  // Training begins behind `step`, metrics.jsonl is cut back to it. Returns at once.
  //   tags: of this attempt, told besides what MLflow shows of every run.
  void start(int64_t step, MlflowTexts tags);
  // metrics.jsonl has a new line of `step`. Never blocks.
  void line_written(int64_t step);
  // Tells the rest and `status`; waits for that up to `patience`, and hardly at all for a server
  // that is away. Does nothing if it was not started. Safe from any thread, once.
  void finish(MlflowStatus status, std::chrono::milliseconds patience);

 private:
  struct Ending {
    MlflowStatus status = MlflowStatus::kFinished;
    int64_t time_ms = 0;
  };

  void work(const std::stop_token& stop);
  // One round: whatever is due next. True once the run's end was told.
  common::Result<bool> advance(const MlflowClient& client);
  common::Result<void> connect(const MlflowClient& client);
  common::Result<void> describe(const MlflowClient& client);
  common::Result<bool> tell_lines(const MlflowClient& client);
  // kGone for an attempt that was replaced: it has nothing to say any more.
  common::Result<void> keep_state();
  // Waits up to `pause`; less if the run ends meanwhile, which it had not if not `was_ending`.
  void rest(const std::stop_token& stop, std::chrono::milliseconds pause, bool was_ending);
  void end(bool has_missed);
  void say_away(const common::Error& error);
  void say_back();
  int64_t time_of(int64_t step) const;
  std::optional<Ending> ending() const;

  const MlflowRunOptions options_;
  const common::Log log_;
  Disk& disk_;
  const std::string settings_;  // checksum of the job's train

  // Of the thread alone.
  int64_t start_step_ = 0;
  int64_t start_ms_ = 0;
  MlflowTexts tags_;
  MlflowState state_;
  MlflowTail tail_;
  bool is_connected_ = false;
  bool is_described_ = false;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::pair<int64_t, int64_t>> times_;  // (step, ms), the newest; guarded by mutex_
  bool has_news_ = true;                           // guarded by mutex_
  bool is_started_ = false;                        // guarded by mutex_
  bool is_away_ = false;                           // guarded by mutex_
  bool is_over_ = false;                           // guarded by mutex_
  bool has_missed_ = false;       // it is over, for a server that was away; guarded by mutex_
  std::optional<Ending> ending_;  // guarded by mutex_
  std::jthread thread_;           // the last member: it uses all others
};

}  // namespace lockstep::runtime
