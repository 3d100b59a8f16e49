#include "runtime/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "runtime/train/run_error.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using Clock = std::chrono::steady_clock;

// The samples of a micro-batch: fewer than rows in the last one, none beyond it.
std::vector<int64_t> samples_of(const RankState& s, int64_t micro_batch) {
  const int64_t rows = s.config().batch.micro_batch_size;
  std::vector<int64_t> samples;
  const int64_t end = std::min((micro_batch + 1) * rows, s.validation->num_samples());
  for (int64_t sample = micro_batch * rows; sample < end; ++sample) samples.push_back(sample);
  return samples;
}

// The sum of the loss of one micro-batch, without a backward.
//   goes_on: another micro-batch follows, so that the first block is worth gathering ahead.
double forward(RankState& s, const MicroBatch& batch, bool goes_on) {
  MicroBatchIo io{.tokens = batch.tokens.data(),
                  .labels = batch.labels.data(),
                  .positions = batch.positions_or_null()};
  const int64_t last = s.decoder->num_blocks() - 1;
  const int64_t tied = s.decoder->tied_block();
  for (int64_t block = 0; block <= last; ++block) {
    const int64_t next = block < last ? block + 1 : goes_on ? 0 : -1;
    const ConstValues params = s.parallelism->unshard(block, next);
    const bool is_tied = block == last && tied >= 0;
    if (is_tied) s.decoder->lend_tied(s.parallelism->unshard(tied, -1), /*gradient=*/nullptr);
    s.decoder->forward_block(block, params, io);
    if (is_tied) s.parallelism->reshard(tied);
    s.parallelism->reshard(block);
  }
  return io.loss_sum;
}

int64_t count_labels(const RankState& s) {
  int64_t count = 0;
  for (int64_t sample = 0; sample < s.validation->num_samples(); ++sample) {
    count += value_or_raise(s.validation->count_labels(sample), ExitCode::kInvalidData);
  }
  if (count == 0) {
    throw RunError({ExitCode::kInvalidData, "no token of train.data.validation has a label",
                    "name data whose labels are not all -100"});
  }
  return count;
}

}  // namespace

bool evaluation_is_due(const common::TrainConfig& config, int64_t step) {
  if (config.data.validation.empty() || step == 0) return false;
  const int64_t every_steps = config.evaluation.every_steps;
  return step == config.steps || (every_steps > 0 && step % every_steps == 0);
}

EvaluationHistory with_evaluation(EvaluationHistory history, int64_t step, double loss) {
  const bool is_better = history.last_step == 0 || loss < history.best_loss;
  history.last_step = step;
  ++history.without_better;
  if (!is_better) return history;
  history.best_loss = loss;
  history.best_step = step;
  history.without_better = 0;
  return history;
}

bool stops_early(const EvaluationHistory& history, int64_t patience) {
  return patience > 0 && history.without_better >= patience;
}

std::optional<Evaluation> evaluate(RankState& s, const std::function<bool()>& stop_wished) {
  const Clock::time_point start = Clock::now();
  const int64_t rows = s.config().batch.micro_batch_size;
  const int64_t num_micro_batches = (s.validation->num_samples() + rows - 1) / rows;
  const int64_t world_size = s.env.world_size;
  Evaluation result{.step = s.step, .loss_tokens = count_labels(s)};
  double sum = 0;
  MicroBatch batch;
  // In a round every rank takes one micro-batch; in the last round some may be empty. All ranks
  // gather the same weights, so all take part in every round.
  for (int64_t first = 0; first < num_micro_batches; first += world_size) {
    value_or_raise(fill_rows(*s.validation, samples_of(s, first + s.env.rank), rows, batch),
                   ExitCode::kInvalidData);
    const bool goes_on = first + world_size < num_micro_batches;
    const std::vector<double> mine = {forward(s, batch, goes_on)};
    const std::vector<int64_t> place = {s.env.rank};
    const StepControl control = exchange_control(*s.collective, {.micro_batches = place,
                                                                 .losses = mine,
                                                                 .stop_wished = stop_wished(),
                                                                 .save = s.saver->progress()});
    s.saver->advance(control.saves);
    if (control.stop) return std::nullopt;
    for (const double loss : control.micro_losses) sum += loss;  // by index
  }
  result.loss = sum / static_cast<double>(result.loss_tokens);
  if (!std::isfinite(result.loss)) {
    s.saver->finish();  // all ranks know that they will end here: they can still save together
    throw RunError({ExitCode::kNonFinite,
                    "the validation loss after step " + std::to_string(s.step) + " is not finite",
                    "lower train.optimizer.lr or raise warm-up; the last checkpoint is intact"});
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace lockstep::runtime
