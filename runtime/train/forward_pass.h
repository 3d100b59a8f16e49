// The model's forward without a backward, over data that is not trained on now.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Runs the model on one micro-batch; the head writes io.loss_sum.
//   goes_on: another micro-batch follows, so that the first block is worth gathering ahead.
// Every rank must call it. Blocks and throws as Parallelism::unshard().
void forward_pass(RankState& s, MicroBatchIo& io, bool goes_on);

// The samples of micro-batch `micro_batch` of `samples` in their order: fewer than
// batch.microBatchSize in the last one, none beyond it.
std::vector<int64_t> samples_in_order(const RankState& s, const Samples& samples,
                                      int64_t micro_batch);

// How many micro-batches these are.
int64_t num_micro_batches_of(const RankState& s, const Samples& samples);

}  // namespace lockstep::runtime
