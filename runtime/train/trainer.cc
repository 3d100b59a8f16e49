#include "runtime/train/trainer.h"

#include <chrono>
#include <optional>
#include <utility>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/train/exchange.h"
#include "runtime/train/exporting.h"
#include "runtime/train/loss_svg.h"
#include "runtime/train/saving.h"
#include "runtime/train/telemetry.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;
using Clock = std::chrono::steady_clock;

Telemetry open_telemetry(RankState& s, StatusBoard& board) {
  std::optional<MetricsFile> file;
  Result<void> opened;
  if (s.is_rank0()) {
    Result<MetricsFile> result = MetricsFile::open(s.env.output);
    if (result) {
      file = std::move(result).value();
    } else {
      opened = result.error();
    }
  }
  agree_on(*s.collective, std::move(opened), ExitCode::kOutputUnwritable, "opening metrics.jsonl");
  return Telemetry({.log_every_steps = s.config().log_every_steps, .total_steps = s.config().steps},
                   s.log, board, std::move(file));
}

void save(RankState& s, Disk& disk, StatusBoard& board, Telemetry& telemetry) {
  const Clock::time_point start = Clock::now();
  board.set_phase("saving");
  agree_on(*s.collective, telemetry.sync(), ExitCode::kOutputUnwritable, "writing metrics.jsonl");
  save_checkpoint(s, disk);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  board.checkpoint_done(s.step, seconds);
  if (s.is_rank0()) s.log.info("checkpoint", {{"step", s.step}, {"seconds", seconds}});
}

bool save_is_due(const RankState& s) {
  const int64_t every_steps = s.config().checkpoint.every_steps;
  return s.step == s.config().steps || (every_steps > 0 && s.step % every_steps == 0);
}

// Trains to the last step. Returns false if the ranks agreed to stop before it; all is saved.
bool train(RankState& s, Disk& disk, StatusBoard& board, const StopSignal& stop) {
  Telemetry telemetry = open_telemetry(s, board);
  board.set_phase("training");
  while (s.step < s.config().steps) {
    const StepStats stats = train_step(s, stop.wished());
    telemetry.step_done(stats);
    if (stats.stop || save_is_due(s)) {
      save(s, disk, board, telemetry);
      board.set_phase("training");
    }
    if (stats.stop) return false;
  }
  return true;
}

// Rank 0: what remains besides the model. finished.json comes last.
Result<void> write_results(const RankState& s, Disk& disk) {
  const std::string svg = draw_loss(s.job.name, read_losses(s.env.output));
  RETURN_IF_ERROR(replace_file(disk, s.env.output, "loss.svg", svg));
  return mark_finished(disk, s.env.output, {.step = s.step, .run = s.run});
}

}  // namespace

ExitCode run_job(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board,
                 StopSignal& stop) {
  if (start_up(s, output, disk, board) == Start::kAlreadyFinished) {
    if (s.is_rank0()) s.log.info("already finished", {{"output", s.env.output}});
    return ExitCode::kSucceeded;
  }
  stop.hold();
  if (!train(s, disk, board, stop)) {
    if (s.is_rank0()) s.log.info("stopped on request", {{"step", s.step}});
    return ExitCode::kPreempted;
  }
  stop.release();  // the last step is saved: a restart only has to export

  if (s.config().export_at_end) {
    board.set_phase("exporting");
    export_model(s, disk);
  }
  Result<void> written;
  if (s.is_rank0()) written = write_results(s, disk);
  agree_on(*s.collective, std::move(written), ExitCode::kOutputUnwritable, "finishing the output");
  board.set_phase("finished");
  if (s.is_rank0()) s.log.info("finished", {{"step", s.step}, {"output", s.env.output}});
  return ExitCode::kSucceeded;
}

}  // namespace lockstep::runtime
