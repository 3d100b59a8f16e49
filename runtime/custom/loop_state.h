// What a CustomLoop holds: a rank's state as the trainer has it, with blocks in place of a decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/custom/custom_loop.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/run_files.h"
#include "runtime/train/status_board.h"
#include "runtime/train/stop_signal.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {

// Blocks without parameters have no unit: -1.
struct CustomLoop::State {
  // All must outlive the state.
  State(Disk& of_disk, StatusBoard& of_board, StopSignal& of_stop)
      : disk(of_disk), board(of_board), stop(of_stop) {}

  Disk& disk;
  StatusBoard& board;
  StopSignal& stop;

  RankState s;
  std::vector<ModuleUnit> blocks;
  std::vector<int64_t> units;  // [block]
  std::optional<Telemetry> telemetry;
  ComputedStep computed;  // the step at work
  bool was_finished = false;

  int64_t unit_after(size_t block) const;
  // Of the blocks that backward comes to.
  int64_t unit_before(size_t block, size_t first) const;
  size_t first_trained() const;

  ConstValues unshard(size_t block, int64_t next);
  void reshard(size_t block);
  float* gradient_buffer(size_t block);
  void gradient_ready(size_t block);

  // The call of a block for the micro-batch that comes next.
  ModuleUnit::Call call(size_t block, ConstValues params, const TensorBatch& batch) const;

  std::string config_json() const;
};

}  // namespace lockstep::runtime
