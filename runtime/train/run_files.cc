#include "runtime/train/run_files.h"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/mlflow_config.h"
#include "runtime/train/exchange.h"
#include "runtime/train/loss_svg.h"
#include "runtime/train/rank_ending.h"

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

// What is to be found again among the runs of an experiment.
MlflowTexts mlflow_tags(const RankState& s) {
  MlflowTexts tags = {{"mlflow.source.name", "lockstep"},
                      {"mlflow.source.type", "JOB"},
                      {"lockstep.version", LOCKSTEP_VERSION},
                      {"lockstep.job", s.job.name},
                      {"lockstep.strategy", s.strategy},
                      {"lockstep.ranks", std::to_string(s.env.world_size)},
                      {"lockstep.attempt", std::to_string(s.env.attempt)},
                      {"lockstep.output", s.env.output}};
  for (const auto& [reference, commit] : s.hub_commits)
    tags["lockstep.commit." + reference] = commit;
  return tags;
}

// Rank 0: finished.json comes last.
Result<void> write_results(const RankState& s, Disk& disk, int64_t exported_step) {
  const std::string svg = draw_loss(s.job.name, read_losses(s.env.output));
  RETURN_IF_ERROR(replace_file(disk, s.env.output, "loss.svg", svg));
  return mark_finished(disk, s.env.output,
                       {.step = s.step, .run = s.run, .exported_step = exported_step});
}

}  // namespace

std::shared_ptr<MlflowRun> mlflow_run(const RankState& s, Disk& disk) {
  if (!s.is_rank0()) return nullptr;
  nlohmann::json train = nlohmann::json::parse(s.job.train_json);
  const std::optional<common::MlflowConfig> config = common::decode_mlflow(train);
  if (!config) return nullptr;
  MlflowServer server = value_or_raise(mlflow_server(config->tracking_uri, look_up_environment),
                                       ExitCode::kInvalidConfig);
  return std::make_shared<MlflowRun>(
      MlflowRunOptions{.server = std::move(server),
                       .config = *config,
                       .output = s.env.output,
                       .run = s.run,
                       .attempt = s.env.attempt,
                       .name = s.job.name,
                       .params = {{"ranks", s.job.ranks}, {"train", std::move(train)}}},
      s.log, disk);
}

Telemetry open_telemetry(RankState& s, StatusBoard& board, const StepCost& cost) {
  TelemetryFiles files = agree_on(*s.collective, open_files(s), ExitCode::kOutputUnwritable,
                                  "opening metrics.jsonl and event files");
  if (s.mlflow) {
    s.mlflow->start(s.step, mlflow_tags(s));
    files.mlflow = s.mlflow;
  }
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
