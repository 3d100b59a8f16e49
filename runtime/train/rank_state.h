// Everything that one rank trains with.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/comm/collective.h"
#include "runtime/common/log.h"
#include "runtime/common/train_config.h"
#include "runtime/common/worker_env.h"
#include "runtime/data/batch_loader.h"
#include "runtime/data/held_out.h"
#include "runtime/data/sample_source.h"
#include "runtime/model/decoder.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/global_norm.h"
#include "runtime/parallel/parallelism.h"
#include "runtime/tracking/mlflow_run.h"
#include "runtime/train/carried_files.h"
#include "runtime/train/checkpoint_saver.h"
#include "runtime/train/pair_loss.h"
#include "runtime/train/pretrained_weights.h"
#include "runtime/train/step_clock.h"
#include "runtime/train/step_guard.h"
#include "runtime/train/teacher.h"

namespace lockstep::runtime {

// Filled by start_up(), in this order; members borrow from those before them. A custom loop has no
// samples, decoder and loader.
struct RankState {
  common::WorkerEnv env;
  common::JobFile job;
  std::string run;  // identity of the run, see Note [Whose output it is]
  common::Log log;
  std::unique_ptr<StepClock> clock = std::make_unique<StepClock>();
  std::unique_ptr<Collective> collective;
  std::map<std::string, std::string> hub_commits;  // as Manifest::hub_commits
  // [source] of samples and validation, under validationFraction; else empty.
  std::vector<std::unique_ptr<DividedSource>> divided;
  std::optional<SampleSource> samples;
  std::optional<Samples> validation;  // if the configuration names some
  std::vector<Unit> units;
  std::optional<PretrainedWeights> pretrained;  // of model.path, until the last use
  std::optional<PretrainedWeights> adapter;     // of lora.path, until training begins
  std::string pretrained_fingerprint;           // of it; empty if first weights are random
  CarriedFiles carried;                         // for the export; on rank 0
  std::string strategy;                         // as in the job, never "auto"
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Parallelism> parallelism;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<GlobalNorm> global_norm;
  // [2 * pairs] of samples and of validation under task dpo: Note [The reference of DPO].
  std::vector<double> reference;
  std::vector<double> validation_reference;
  int32_t pad_token = -1;            // as PairTerms::pad_token, under task reward
  std::unique_ptr<Teacher> teacher;  // under task distill
  std::unique_ptr<CheckpointSaver> saver;
  std::shared_ptr<MlflowRun> mlflow;  // on rank 0, if the job names a server; main() ends it
  int64_t step = 0;                   // finished steps, skipped ones too
  StepHistory history;
  EvaluationHistory evaluations;  // up to `step`
  int64_t saved_step = 0;         // newest checkpoint of the output, begun or published; 0: none
  std::unique_ptr<BatchLoader> loader;  // of the steps from `step` on

  const common::TrainConfig& config() const { return job.train; }
  bool is_rank0() const { return env.rank == 0; }
  // Whether the model of the lowest validation loss is exported, not that of the last step.
  bool wants_best() const { return config().evaluation.early_stopping_patience > 0; }
  bool is_best() const { return wants_best() && step > 0 && evaluations.best_step == step; }
  // Of the training data; empty if there is none that the runtime reads.
  std::string data_fingerprint() const { return samples ? samples->samples().fingerprint() : ""; }
  // Units of the model; those of adapters follow.
  int64_t num_model_units() const {
    const auto num_units = static_cast<int64_t>(units.size());
    return config().lora.is_on() ? config().model.num_hidden_layers + 2 : num_units;
  }
  // Whether a unit is no state: its weights are those of model.path beside adapters.
  bool is_base(int64_t unit) const { return config().lora.is_on() && unit < num_model_units(); }
  // Of the answers of pairs: the model tells how likely a text is, not how good.
  bool has_log_probs() const { return !config().model.has_score; }
  // What the loss of pairs takes beside a micro-batch and its reference.
  PairTerms pair_terms(double token_weight) const {
    return {.task = config().task,
            .preference = config().preference,
            .reference = {},
            .token_weight = token_weight,
            .pad_token = pad_token};
  }
  // Places of a global batch, those without loss included.
  int64_t step_tokens() const {
    return config().batch.global_batch_size * rows_per_sample(config()) *
           config().data.sequence_length;
  }
};

}  // namespace lockstep::runtime
