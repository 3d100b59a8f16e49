#include "runtime/train/trainer.h"

#include <optional>
#include <utility>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/train/exchange.h"
#include "runtime/train/exporting.h"
#include "runtime/train/loss_svg.h"
#include "runtime/train/memory_report.h"
#include "runtime/train/saving.h"
#include "runtime/train/telemetry.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

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

// Trains to the last step. Returns false if the ranks agreed to stop before it; all is saved.
bool train(RankState& s, StatusBoard& board, const StopSignal& stop) {
  Telemetry telemetry = open_telemetry(s, board);
  board.set_phase("training");
  bool stops = false;
  while (!stops && s.step < s.config().steps) {
    const StepStats stats = train_step(s, stop.wished());
    stops = stats.stop;
    telemetry.step_done(stats);
    s.saver->advance(stats.saves);
    if (!stops && !save_is_due(s)) continue;
    board.set_phase("saving");
    begin_save(s);
    board.set_phase("training");
  }
  board.set_phase("saving");
  s.saver->finish();
  return !stops;
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
  make_saver(s, disk, board);
  stop.hold();
  if (!train(s, board, stop)) {
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
  log_memory(s.log, "end");
  if (s.is_rank0()) s.log.info("finished", {{"step", s.step}, {"output", s.env.output}});
  return ExitCode::kSucceeded;
}

}  // namespace lockstep::runtime
