#include "runtime/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "runtime/train/distilling.h"
#include "runtime/train/forward_pass.h"
#include "runtime/train/pair_loss.h"
#include "runtime/train/run_error.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using Clock = std::chrono::steady_clock;

// What a micro-batch of the validation data came to.
struct Measured {
  double loss_sum = 0;
  PairFigures figures;
};

//   token_weight: as PairTerms::token_weight.
//   goes_on: as of forward_pass().
Measured measure(RankState& s, const MicroBatch& batch, double token_weight, bool goes_on) {
  MicroBatchIo io{.tokens = batch.tokens.data(),
                  .labels = batch.labels.data(),
                  .positions = batch.positions_or_null()};
  Measured measured;
  if (is_preference(s.config().task)) {
    const PairBatch pairs(s.pair_terms(token_weight), batch, s.validation_reference,
                          measured.figures);
    pairs.give_to(io);
    forward_pass(s, io, goes_on);
  } else {
    with_teacher(s, io, [&] { forward_pass(s, io, goes_on); });
  }
  measured.loss_sum = io.loss_sum;
  return measured;
}

// Of the chosen answers of all of the validation data.
double token_weight_of_validation(const RankState& s) {
  const Samples& samples = *s.validation;
  int64_t num_tokens = 0;
  for (int64_t sample = 0; sample < samples.num_samples(); ++sample) {
    num_tokens += samples.count_predictions(sample * samples.rows_per_sample());
  }
  return token_weight_of(samples.num_samples(), num_tokens);
}

int64_t count_labels(const RankState& s) {
  int64_t count = 0;
  for (int64_t sample = 0; sample < s.validation->num_samples(); ++sample) {
    count += value_or_raise(s.validation->count_labels(sample), ExitCode::kInvalidData);
  }
  if (count == 0) {
    throw RunError({ExitCode::kInvalidData, "no token of the validation data has a label",
                    "name data whose labels are not all -100"});
  }
  return count;
}

}  // namespace

bool evaluation_is_due(const common::TrainConfig& config, int64_t step) {
  if (!config.data.has_validation() || step == 0) return false;
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
  const int64_t num_micro_batches = num_micro_batches_of(s, *s.validation);
  const bool has_pairs = is_preference(s.config().task);
  const double token_weight = has_pairs ? token_weight_of_validation(s) : 0;
  const int64_t world_size = s.env.world_size;
  Evaluation result{.step = s.step, .loss_tokens = count_labels(s)};
  double sum = 0;
  PairFigures figures;
  MicroBatch batch;
  // In a round every rank takes one micro-batch; in the last round some may be empty. All ranks
  // gather the same weights, so all take part in every round.
  for (int64_t first = 0; first < num_micro_batches; first += world_size) {
    value_or_raise(fill_rows(*s.validation, samples_in_order(s, *s.validation, first + s.env.rank),
                             s.config().batch.micro_batch_size, batch),
                   ExitCode::kInvalidData);
    const bool goes_on = first + world_size < num_micro_batches;
    const Measured mine = measure(s, batch, token_weight, goes_on);
    const std::vector<int64_t> place = {s.env.rank};
    const StepControl control =
        exchange_control(*s.collective, {.micro_batches = place,
                                         .losses = std::span(&mine.loss_sum, 1),
                                         .figures = std::span(&mine.figures, has_pairs ? 1 : 0),
                                         .stop_wished = stop_wished(),
                                         .save = s.saver->progress()});
    s.saver->advance(control.saves);
    if (control.stop) return std::nullopt;
    for (const double loss : control.micro_losses) sum += loss;  // by index
    figures = add_all(figures, control.figures);                 // the same
  }
  const auto num_pairs = static_cast<double>(s.validation->num_samples());
  if (has_pairs) {
    result.pairs = mean_of(figures, num_pairs);
    result.pairs->has_log_probs = s.has_log_probs();
  }
  result.loss = sum / (has_pairs ? num_pairs : static_cast<double>(result.loss_tokens));
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
