#include "runtime/train/teacher.h"

#include <algorithm>

#include "runtime/kernels/device.h"
#include "runtime/model/head.h"
#include "runtime/parallel/make_parallelism.h"

namespace lockstep::runtime {
namespace {

BatchShape shape_of(const common::TrainConfig& train) {
  return {micro_batch_rows(train), train.data.sequence_length};
}

std::unique_ptr<Parallelism> frozen_parallelism(const common::TrainConfig& train,
                                                common::Strategy strategy,
                                                const std::vector<Unit>& units,
                                                Collective& collective) {
  ParallelismOptions options = {.config = train.parallelism,
                                .unit_elems = {},
                                .frozen = std::vector<bool>(units.size(), true),
                                .num_base = static_cast<int64_t>(units.size()),
                                .num_micro_batches = train.batch.num_micro_batches(),
                                .num_moments = 0,
                                .dtype = train.precision};
  options.config.strategy = strategy;
  for (const Unit& unit : units) options.unit_elems.push_back(unit.num_elems);
  return make_parallelism(options, collective);
}

}  // namespace

// No backward follows: of a layer nothing is kept but its input.
Teacher::Teacher(const common::TrainConfig& train, common::Strategy strategy,
                 Collective& collective)
    : units_(model_units(train.distill.model)),
      factors_{.alpha = static_cast<float>(train.distill.alpha),
               .temperature = static_cast<float>(train.distill.temperature)},
      decoder_(train.distill.model, shape_of(train), common::ActivationCheckpointing::kBlock,
               train.precision),
      parallelism_(frozen_parallelism(train, strategy, units_, collective)) {
  const int64_t vocab = train.distill.model.vocab_size;
  const int64_t chunk = device().row_factor * loss_chunk_rows(vocab);
  logits_ = FloatBuffer(std::min(shape_of(train).rows(), chunk) * vocab);
}

void Teacher::fill(const FillElems& fill_elems) {
  parallelism_->fill_base(fill_elems);
  parallelism_->weights_updated();
}

// See Note [The teacher].
Distillation Teacher::read(const MicroBatchIo& io) {
  MicroBatchIo own = {.tokens = io.tokens, .labels = io.labels, .positions = io.positions};
  const int64_t last = decoder_.num_blocks() - 1;
  for (int64_t block = 0; block < last; ++block) {
    const ConstValues params = parallelism_->unshard(block, block + 1);
    decoder_.forward_block(block, params, own);
    parallelism_->reshard(block);
  }
  const int64_t tied = decoder_.tied_block();
  head_ = parallelism_->unshard(last, -1);
  if (tied >= 0) tied_ = parallelism_->unshard(tied, -1);
  return {.factors = factors_, .logits = [this](int64_t begin_row, int64_t num_rows) {
            if (decoder_.tied_block() >= 0) decoder_.lend_tied(tied_, /*gradient=*/nullptr);
            decoder_.logits(begin_row, num_rows, head_, logits_.data());
            return logits_.data();
          }};
}

void Teacher::rest() {
  if (decoder_.tied_block() >= 0) parallelism_->reshard(decoder_.tied_block());
  parallelism_->reshard(decoder_.num_blocks() - 1);
}

}  // namespace lockstep::runtime
