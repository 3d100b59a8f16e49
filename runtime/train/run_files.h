// The files of a run beside its checkpoints and model: opened when training starts, finished when
// it ends.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/telemetry.h"

namespace lockstep::runtime {

// What tells the MLflow server of the job of this run; null on other ranks, and if the job names
// none. Throws RunError(kInvalidConfig) for an address or a token that makes no sense. `disk` must
// outlive it.
std::shared_ptr<MlflowRun> mlflow_run(const RankState& s, Disk& disk);

// Telemetry of the steps after s.step, with rank 0's metrics.jsonl and event files; s.mlflow
// begins. `board` must outlive it. Every rank must call it. Throws RunError(kOutputUnwritable) if
// rank 0 cannot open them, PeerLostError on the others.
Telemetry open_telemetry(RankState& s, StatusBoard& board, const StepCost& cost);

// What remains besides the model: loss.svg and, last, finished.json. Every rank must call it;
// throws as open_telemetry().
//   exported_step: whose weights are in model/; 0 if nothing was exported.
void finish_output(RankState& s, Disk& disk, int64_t exported_step);

}  // namespace lockstep::runtime
