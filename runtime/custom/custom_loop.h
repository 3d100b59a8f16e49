// Trains a model of torch modules in a loop of the user's own, as one rank of a job: what
// Accelerate's prepare(), accumulate() and backward() give, with the strategies, bits, checkpoints
// and errors of the trainer. docs/guides/custom-loop.md shows it at work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/common/worker_env.h"
#include "runtime/custom/module_unit.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// The parts mean what they do in a job's `train`, with the same bounds and, but for the strategy
// and optimizer.weight_decay (0.1, whichever the optimizer), the same defaults.
struct CustomLoopOptions {
  int64_t steps = 0;              // of the whole run
  int64_t num_micro_batches = 0;  // of a step, all ranks together; the ranks must divide it
  common::ParallelismConfig parallelism = {.strategy = common::Strategy::kDdp};  // not kAuto
  common::OptimizerConfig optimizer;  // its lr is that of update() without an argument
  common::NonFiniteConfig non_finite;
  common::CheckpointConfig checkpoint;
  common::CommunicationConfig communication;
  common::DType precision = common::DType::kFp32;     // or kBf16
  common::DType export_dtype = common::DType::kFp32;  // of the model that finish() writes
  int64_t log_every_steps = 10;
  int64_t seed = 42;    // of what functions draw; weights are first what the modules hold
  int num_threads = 1;  // of torch in this rank; another number may be other bits
};

// Every rank must call all methods in the same order, forward_backward() and evaluate() with
// micro-batches of its own. Whatever they throw ends the rank: run_custom_rank() sees to it.
class CustomLoop {
 public:
  ~CustomLoop();
  CustomLoop(const CustomLoop&) = delete;
  CustomLoop& operator=(const CustomLoop&) = delete;

  // Finished steps. Not 0 in a run that was resumed: data follow from this number.
  int64_t step() const;
  bool is_done() const;  // all steps are made

  // This rank's micro-batches of every step, indices into [0, num_micro_batches), in the order in
  // which forward_backward() must be given them. Which ones depends on ranks and strategy; what a
  // micro-batch holds must follow from (step, index) alone, then so do the bits of the run.
  const std::vector<int64_t>& micro_batches() const;

  // Adds the gradient of the next micro-batch. Weights are gathered and freed, gradients reduced
  // meanwhile. Returns the sum of its loss.
  //   num_items: what its sum of the loss counts (tokens, samples); the step's loss and gradient
  //   are divided by the number of the whole global batch.
  double forward_backward(const TensorBatch& batch, int64_t num_items);

  // After the last micro-batch: clips, updates the weights, logs, and saves if that is due. A step
  // that is not finite is skipped as options.non_finite says. After a SIGTERM to any rank it saves
  // this step and throws RunError(kPreempted).
  StepStats update(double lr);
  StepStats update();  // with the options' optimizer.lr

  // The sum of the loss over a micro-batch without gradients, modules in eval mode. Between steps;
  // on every rank equally often.
  double evaluate(const TensorBatch& batch);
  // The values of all ranks, by rank.
  std::vector<double> gather(double mine);

  // Waits for checkpoints, writes OUTPUT/model (model.safetensors, and config.json with the blocks'
  // names) and marks the output as finished. Does nothing in a restart of a finished run. Between
  // steps, not within one.
  void finish();

 private:
  friend class CustomRank;
  struct State;
  explicit CustomLoop(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// One rank's process.
class CustomRank {
 public:
  // Reads the job file of `env`. Throws RunError: kInputNotFound if it cannot be read,
  // kInvalidConfig if it is no job's.
  CustomRank(const common::WorkerEnv& env, RankEnding& ending);
  ~CustomRank();
  CustomRank(const CustomRank&) = delete;
  CustomRank& operator=(const CustomRank&) = delete;

  const common::WorkerEnv& env() const;
  // The finished steps of the loop, 0 before there is one; for the last words.
  int64_t step() const;

  // Meets the other ranks, shards the model, and goes on from the output's newest checkpoint, if
  // there is one. Once per process; the result lives as long as this object. The blocks run one
  // after the other, each a unit: what zero3 gathers and frees. Until the shards are filled, or a
  // checkpoint is found, every rank holds all first weights. Blocks.
  // Throws RunError: kInvalidConfig for blocks (see ModuleUnit) and options that cannot be
  // honoured, a parameter in two blocks, first weights that differ between ranks; what the
  // trainer's start throws.
  CustomLoop& prepare(std::vector<CustomBlock> blocks, const CustomLoopOptions& options);

 private:
  struct Process;
  std::unique_ptr<Process> process_;
  std::unique_ptr<CustomLoop> loop_;
};

// A rank's life: reads the environment that `lockstep run` and the operator give every rank, calls
// `body`, and ends the process with the exit code, log line and termination message of what comes
// of it. To be called first in main(). SIGTERM before prepare() ends the process at once.
[[noreturn]] void run_custom_rank(const std::function<void(CustomRank&)>& body);

}  // namespace lockstep::runtime
