#include "runtime/train/trainer.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/best_model.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/exporting.h"
#include "runtime/train/flops.h"
#include "runtime/train/memory_report.h"
#include "runtime/train/profile_window.h"
#include "runtime/train/run_files.h"
#include "runtime/train/saving.h"
#include "runtime/train/telemetry.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;

StepCost cost_of_step(const RankState& s) {
  const double flops_per_token =
      model_flops_per_token(s.config().model, s.config().data.sequence_length);
  return {.flops = flops_per_token * static_cast<double>(s.step_tokens()),
          .peak_flops_per_second = s.config().logging.peak_flops_per_rank * s.env.world_size};
}

// Evaluates if the step at hand asks for it and has not been evaluated. Returns false if the ranks
// agreed to stop instead; a resumed run makes up for it.
bool evaluate_if_due(RankState& s, StatusBoard& board, const StopSignal& stop,
                     Telemetry& telemetry) {
  const bool is_done = s.evaluations.last_step == s.step;
  if (is_done || !evaluation_is_due(s.config(), s.step)) return true;
  const std::optional<Evaluation> evaluation = evaluate(s, [&] {
    board.set_phase("evaluating");  // each time a sign of life
    return stop.wished();
  });
  if (!evaluation) return false;
  telemetry.evaluation_done(*evaluation);
  s.evaluations = with_evaluation(s.evaluations, s.step, evaluation->loss);
  board.set_phase("training");
  return true;
}

// Trains to the last step, or until validation tells to stop. Returns false if the ranks agreed to
// stop before it; all is saved.
bool train(RankState& s, Disk& disk, StatusBoard& board, const StopSignal& stop) {
  Telemetry telemetry = open_telemetry(s, board, cost_of_step(s));
  ProfileWindow profile(s, disk);
  s.loader = std::make_unique<BatchLoader>(
      *s.samples, BatchLoaderOptions{.first_step = s.step,
                                     .end_step = s.config().steps,
                                     .micro_batches = s.parallelism->micro_batches(),
                                     .num_threads = s.config().data.loader_threads,
                                     .prefetch_batches = s.config().data.prefetch_batches});
  const auto is_over = [&] {
    return s.step == s.config().steps ||
           stops_early(s.evaluations, s.config().evaluation.early_stopping_patience);
  };
  board.set_phase("training");
  secure_best(s, disk);
  bool goes_on = evaluate_if_due(s, board, stop, telemetry);
  if (s.is_best() && s.saved_step != s.step) begin_save(s);  // of another output, evaluated here
  while (goes_on && !is_over()) {
    const int64_t step = s.step + 1;
    profile.step_begins(step);
    const StepStats stats = train_step(s, stop.wished());
    profile.step_ended(step);
    telemetry.step_done(stats);
    s.saver->advance(stats.saves);
    goes_on = !stats.stop && evaluate_if_due(s, board, stop, telemetry);
    if (goes_on && !save_is_due(s) && !is_over()) continue;
    board.set_phase("saving");
    begin_save(s);
    board.set_phase("training");
  }
  s.loader.reset();
  profile.finish();
  board.set_phase("saving");
  s.saver->finish();
  if (goes_on && s.step < s.config().steps) {
    board.set_plan(s.strategy, s.step, s.step);  // what was planned beyond is not going to be made
    if (s.is_rank0()) s.log.info("stopped early", {{"step", s.step}});
  }
  return goes_on;
}

}  // namespace

ExitCode run_job(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board,
                 StopSignal& stop) {
  if (start_up(s, output, disk, board) == Start::kAlreadyFinished) {
    if (s.is_rank0()) s.log.info("already finished", {{"output", s.env.output}});
    return ExitCode::kSucceeded;
  }
  make_saver(s, disk, board);
  stop.hold();
  if (!train(s, disk, board, stop)) {
    if (s.is_rank0()) s.log.info("stopped on request", {{"step", s.step}});
    return ExitCode::kPreempted;
  }
  stop.release();  // the last step is saved: a restart only has to export

  ExportChoice exported;
  if (s.config().export_at_end) {
    board.set_phase("exporting");
    exported = load_weights_to_export(s);
    export_model(s, disk);
    if (s.is_rank0()) {
      s.log.info("exported", {{"step", exported.step}, {"reason", exported.reason}});
    }
  }
  finish_output(s, disk, exported.step);
  board.set_phase("finished");
  log_memory(s.log, "end");
  if (s.is_rank0()) s.log.info("finished", {{"step", s.step}, {"output", s.env.output}});
  return ExitCode::kSucceeded;
}

}  // namespace lockstep::runtime
