#include "runtime/train/run_files.h"

#include <string>
#include <utility>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/train/exchange.h"
#include "runtime/train/loss_svg.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

// Rank 0's files, opened for what follows step s.step.
Result<TelemetryFiles> open_files(const RankState& s) {
  TelemetryFiles files;
  if (!s.is_rank0()) return files;
  ASSIGN_OR_RETURN(files.metrics, MetricsFile::open(s.env.output));
  if (!s.config().logging.tensorboard) return files;
  ASSIGN_OR_RETURN(files.events, EventFile::create({.output = s.env.output,
                                                    .attempt = s.env.attempt,
                                                    .first_step = s.step + 1}));
  return files;
}

// Rank 0: finished.json comes last.
Result<void> write_results(const RankState& s, Disk& disk, int64_t exported_step) {
  const std::string svg = draw_loss(s.job.name, read_losses(s.env.output));
  RETURN_IF_ERROR(replace_file(disk, s.env.output, "loss.svg", svg));
  return mark_finished(disk, s.env.output,
                       {.step = s.step, .run = s.run, .exported_step = exported_step});
}

}  // namespace

Telemetry open_telemetry(RankState& s, StatusBoard& board, const StepCost& cost) {
  TelemetryFiles files = agree_on(*s.collective, open_files(s), ExitCode::kOutputUnwritable,
                                  "opening metrics.jsonl and event files");
  return Telemetry({.log_every_steps = s.config().logging.every_steps,
                    .total_steps = s.config().steps,
                    .cost = cost},
                   s.log, board, std::move(files));
}

void finish_output(RankState& s, Disk& disk, int64_t exported_step) {
  Result<void> written;
  if (s.is_rank0()) written = write_results(s, disk, exported_step);
  agree_on(*s.collective, std::move(written), ExitCode::kOutputUnwritable, "finishing the output");
}

}  // namespace lockstep::runtime
