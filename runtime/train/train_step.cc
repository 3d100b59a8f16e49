#include "runtime/train/train_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/optim/schedule.h"
#include "runtime/train/distilling.h"
#include "runtime/train/lent_adapters.h"
#include "runtime/train/pair_loss.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;
using common::StepPart;

// See Note [Tied embeddings] in model/head.h.
void lend_embedding(RankState& s) {
  const int64_t tied = s.decoder->tied_block();
  if (tied < 0) return;
  s.decoder->lend_tied(s.parallelism->unshard(tied, -1), s.parallelism->gradient_buffer(tied));
}

// The next micro-batch of this rank, which must be of the step at work.
const LoadedBatch& next_batch(RankState& s) {
  s.clock->enter(StepPart::kData, "micro-batch");
  Result<const LoadedBatch*> batch = s.loader->next();
  if (!batch) throw RunError(to_failure(ExitCode::kInvalidData, batch.error()));
  return **batch;
}

void require_labels(const RankState& s, int64_t num_labels) {
  if (num_labels > 0) return;
  throw RunError({ExitCode::kInvalidData,
                  "nothing in the global batch of step " + std::to_string(s.step + 1) +
                      " has a label: there is nothing to learn from it",
                  "leave out the samples without a label, or make the global batch larger"});
}

// Forward and backward of one micro-batch. The last block's backward computes the loss: it needs no
// forward. Blocks below the first that is trained need no backward.
//   io: all but what is written.
void run_blocks(RankState& s, MicroBatchIo& io) {
  const int64_t last = s.decoder->num_blocks() - 1;
  const auto name_of = [&s](int64_t block) -> std::string_view {
    return s.units[static_cast<std::size_t>(block)].name;
  };
  for (int64_t block = 0; block < last; ++block) {
    s.clock->enter(StepPart::kForward, name_of(block));
    const ConstValues params = s.parallelism->unshard(block, block + 1);
    lend_adapters(s, block, Pass::kForward);
    s.decoder->forward_block(block, params, io);
    return_adapters(s, block, Pass::kForward);
    s.parallelism->reshard(block);
  }
  const int64_t first = first_trained_block(s.config());
  for (int64_t block = last; block >= first; --block) {
    s.clock->enter(StepPart::kBackward, name_of(block));
    const ConstValues params = s.parallelism->unshard(block, block > first ? block - 1 : -1);
    if (block == last) lend_embedding(s);
    lend_adapters(s, block, Pass::kBackward);
    s.decoder->backward_block(block, params, io, s.parallelism->gradient_buffer(block));
    if (block == last && s.decoder->tied_block() >= 0) {
      s.parallelism->reshard(s.decoder->tied_block());
    }
    return_adapters(s, block, Pass::kBackward);
    s.parallelism->reshard(block);
    if (!is_frozen(s.config(), block)) s.parallelism->gradient_ready(block);
  }
}

// Trains on micro-batch `index` of the global batch, and adds what came of it to `computed`, whose
// num_labels and num_pairs are those of the global batch.
//   token_weight: as PairTerms::token_weight.
void run_micro_batch(RankState& s, int64_t index, const MicroBatch& batch, double token_weight,
                     ComputedStep& computed) {
  const TrainingPlace place = {
      .seed = static_cast<uint64_t>(s.config().seed), .step = s.step, .micro_batch = index};
  const int64_t divisor = computed.num_pairs > 0 ? computed.num_pairs : computed.num_labels;
  MicroBatchIo io{
      .tokens = batch.tokens.data(),
      .labels = batch.labels.data(),
      .positions = batch.positions_or_null(),
      .loss_scale = static_cast<float>(s.history.loss_scale.scale) / static_cast<float>(divisor),
      .place = &place};
  if (computed.num_pairs == 0) {
    if (s.teacher != nullptr) s.clock->enter(StepPart::kForward, "teacher");
    with_teacher(s, io, [&] { run_blocks(s, io); });
  } else {
    PairFigures figures;
    const PairBatch pairs(s.pair_terms(token_weight), batch, s.reference, figures);
    pairs.give_to(io);
    run_blocks(s, io);
    computed.figures.push_back(figures);
  }
  computed.losses.push_back(io.loss_sum);
}

// Sums in index order, so that the bits do not depend on who computed which micro-batch.
double mean_loss(const std::vector<double>& micro_losses, int64_t divisor) {
  double sum = 0;
  for (const double loss : micro_losses) sum += loss;
  return sum / static_cast<double>(divisor);
}

// What of a step is not finite, in words, and whose it is.
struct NonFinite {
  std::string what;
  bool is_mine = true;  // a gradient's is everybody's
};

std::optional<NonFinite> find_non_finite(const RankState& s, const StepControl& control) {
  for (std::size_t index = 0; index < control.micro_losses.size(); ++index) {
    if (std::isfinite(control.micro_losses[index])) continue;
    const auto& mine = s.parallelism->micro_batches();
    const bool is_mine =
        std::find(mine.begin(), mine.end(), static_cast<int64_t>(index)) != mine.end();
    return NonFinite{"the loss of micro-batch " + std::to_string(index) + " at step " +
                         std::to_string(s.step + 1) + " is not finite",
                     is_mine};
  }
  return std::nullopt;
}

NonFinite non_finite_gradient(const RankState& s) {
  return {"the gradient norm at step " + std::to_string(s.step + 1) +
          " is not finite, though all losses are"};
}

//   divisor: what the gradients must yet be divided by.
GradientNorm global_norm(RankState& s, double divisor) {
  return s.global_norm->compute(s.parallelism->owned(), s.config().optimizer.gradient_clip,
                                divisor);
}

void update_weights(RankState& s, double lr, const GradientNorm& norm) {
  const int64_t update = s.step + 1 - s.history.skipped_steps;  // what Adam has seen
  const OptimizerStep step = {.step = update, .lr = lr, .gradient_scale = norm.gradient_scale};
  s.parallelism->visit_shards(StateAccess::kUpdate, [&](const ParamShard& shard) {
    s.optimizer->step(step, std::span(&shard, 1));
  });
  s.parallelism->weights_updated();
}

// The rank that computed a bad micro-batch is the cause; the others only lost a peer.
[[noreturn]] void give_up(RankState& s, const NonFinite& cause, int64_t consecutive_skips) {
  s.saver->finish();  // all ranks know that they will end here: they can still save together
  std::string what = cause.what;
  if (consecutive_skips > 1) {
    what += ", like " + std::to_string(consecutive_skips - 1) + " steps before it";
  }
  if (!cause.is_mine) throw PeerLostError("another rank gave up: " + what);
  const bool is_fp16 = s.config().precision == common::DType::kFp16;
  throw RunError({ExitCode::kNonFinite, "rank " + std::to_string(s.env.rank) + ": " + what,
                  is_fp16 ? "the loss scale cannot fall any more: use precision bf16 or lower the "
                            "learning rate; the last checkpoint is intact"
                          : "lower the learning rate or raise warm-up; the last checkpoint is "
                            "intact"});
}

// Counts the step, and ends the run if too many were not finite.
void settle(RankState& s, const std::optional<NonFinite>& cause) {
  const double scale = s.history.loss_scale.scale;
  const StepVerdict verdict = judge_step(s.config(), s.history, !cause);
  s.history = verdict.next;
  if (verdict.gives_up) give_up(s, *cause, verdict.next.consecutive_skips);
  if (!cause || !s.is_rank0()) return;
  s.log.warning("step skipped", {{"step", s.step + 1},
                                 {"message", cause->what},
                                 {"skipped_steps", s.history.skipped_steps},
                                 {"loss_scale", scale},
                                 {"next_loss_scale", s.history.loss_scale.scale}});
}

}  // namespace

StepControl exchange_control(Collective& collective, const OwnControl& own) {
  // Per rank: wish, busy seconds, save, items, then (index, loss, figures of pairs) of each
  // micro-batch. Indices and sums of items are exact in a double.
  constexpr std::size_t kHeadElems = 4;
  const std::size_t num_micro = own.micro_batches.size();
  const std::size_t num_figures = own.figures.empty() ? 0 : PairFigures::kNumValues;
  const std::size_t micro_elems = 2 + num_figures;
  const std::size_t rank_elems = kHeadElems + micro_elems * num_micro;
  const auto world_size = static_cast<std::size_t>(collective.world_size());
  std::vector<double> mine = {
      own.stop_wished ? 1.0 : 0.0, own.busy_seconds, static_cast<double>(own.save),
      static_cast<double>(std::accumulate(own.num_items.begin(), own.num_items.end(), int64_t{0}))};
  mine.reserve(rank_elems);
  for (std::size_t i = 0; i < num_micro; ++i) {
    mine.push_back(static_cast<double>(own.micro_batches[i]));
    mine.push_back(own.losses[i]);
    if (num_figures > 0) {
      const auto values = own.figures[i].values();
      mine.insert(mine.end(), values.begin(), values.end());
    }
  }
  std::vector<double> all(rank_elems * world_size);
  collective
      .all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                  "step control")
      ->wait();

  StepControl control;
  control.micro_losses.resize(world_size * num_micro);
  if (num_figures > 0) control.figures.resize(world_size * num_micro);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    const double* const record = all.data() + rank * rank_elems;
    control.stop = control.stop || record[0] != 0;
    control.busy_seconds.push_back(record[1]);
    control.saves.push_back(static_cast<SaveProgress>(static_cast<int>(record[2])));
    control.num_items += static_cast<int64_t>(record[3]);
    for (std::size_t i = 0; i < num_micro; ++i) {
      const double* const micro = record + kHeadElems + micro_elems * i;
      const auto index = static_cast<std::size_t>(micro[0]);
      control.micro_losses.at(index) = micro[1];
      if (num_figures == 0) continue;
      std::array<double, PairFigures::kNumValues> values{};
      std::copy_n(micro + 2, num_figures, values.begin());
      control.figures.at(index) = PairFigures::of(values);
    }
  }
  return control;
}

StepStats finish_step(RankState& s, const ComputedStep& computed, bool stop_wished) {
  s.clock->enter(StepPart::kOptimizer, "losses and norm");
  const StepControl control =
      exchange_control(*s.collective, {.micro_batches = s.parallelism->micro_batches(),
                                       .losses = computed.losses,
                                       .num_items = computed.num_items,
                                       .figures = computed.figures,
                                       .busy_seconds = s.clock->busy_seconds(),
                                       .stop_wished = stop_wished,
                                       .save = s.saver->progress()});
  const bool is_divided = computed.num_labels > 0;
  const int64_t num_labels = is_divided ? computed.num_labels : control.num_items;
  const int64_t num_pairs = computed.num_pairs;
  require_labels(s, num_labels);
  std::optional<NonFinite> cause = find_non_finite(s, control);
  const double loss_scale = s.history.loss_scale.scale;
  const double gradient_divisor =
      is_divided ? loss_scale : loss_scale * static_cast<double>(num_labels);
  const GradientNorm norm =
      cause ? GradientNorm{.norm = std::nan("")} : global_norm(s, gradient_divisor);
  if (!cause && !norm.finite) cause = non_finite_gradient(s);

  s.clock->enter(StepPart::kOptimizer, "update");
  if (!cause) update_weights(s, computed.lr, norm);
  settle(s, cause);
  ++s.step;
  if (!is_divided) s.history.num_items += num_labels;
  const common::StepParts parts = s.clock->end_step();
  StepStats stats = {
      .step = s.step,
      .loss = mean_loss(control.micro_losses, num_pairs > 0 ? num_pairs : num_labels),
      .gradient_norm = norm.norm,
      .learning_rate = computed.lr,
      .step_tokens = is_divided ? s.step_tokens() : num_labels,
      .loss_tokens = num_labels,
      .run_tokens = is_divided ? s.step * s.step_tokens() : s.history.num_items,
      .step_seconds = std::accumulate(parts.begin(), parts.end(), 0.0),
      .busy_seconds = control.busy_seconds,
      .stop = control.stop,
      .skipped = cause.has_value(),
      .skipped_steps = s.history.skipped_steps,
      .saves = control.saves,
      .parts = parts};
  if (s.config().precision == common::DType::kFp16) stats.loss_scale = loss_scale;
  if (num_pairs > 0) {
    stats.pairs = mean_of(add_all({}, control.figures), static_cast<double>(num_pairs));
    stats.pairs->has_log_probs = s.has_log_probs();
  }
  return stats;
}

StepStats train_step(RankState& s, bool stop_wished) {
  s.clock->begin_step(s.step + 1);
  s.collective->begin_step(s.step + 1);
  ComputedStep computed = {
      .lr = lr_at(s.config().schedule, s.config().optimizer.lr, s.step + 1, s.config().steps)};
  if (is_preference(s.config().task)) computed.num_pairs = s.config().batch.global_batch_size;
  double token_weight = 0;
  computed.losses.reserve(s.parallelism->micro_batches().size());
  while (computed.losses.size() < s.parallelism->micro_batches().size()) {
    const LoadedBatch& batch = next_batch(s);
    // It comes with the step's first micro-batch.
    if (batch.step_labels) {
      computed.num_labels = *batch.step_labels;
      token_weight = token_weight_of(computed.num_pairs, batch.step_first_predictions);
    }
    require_labels(s, computed.num_labels);
    const int64_t index = s.parallelism->micro_batches()[computed.losses.size()];
    run_micro_batch(s, index, batch.data, token_weight, computed);
  }
  s.clock->enter(StepPart::kBackward, "sums of gradients");
  s.parallelism->finish_backward();  // gradients of shards() and owned() are final
  return finish_step(s, computed, stop_wished);
}

}  // namespace lockstep::runtime
