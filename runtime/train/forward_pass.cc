#include "runtime/train/forward_pass.h"

#include <algorithm>

#include "runtime/train/lent_adapters.h"

namespace lockstep::runtime {

void forward_pass(RankState& s, MicroBatchIo& io, bool goes_on) {
  const int64_t last = s.decoder->num_blocks() - 1;
  const int64_t tied = s.decoder->tied_block();
  for (int64_t block = 0; block <= last; ++block) {
    const int64_t next = block < last ? block + 1 : goes_on ? 0 : -1;
    const ConstValues params = s.parallelism->unshard(block, next);
    const bool is_tied = block == last && tied >= 0;
    if (is_tied) s.decoder->lend_tied(s.parallelism->unshard(tied, -1), /*gradient=*/nullptr);
    lend_adapters(s, block, Pass::kForward);
    s.decoder->forward_block(block, params, io);
    return_adapters(s, block, Pass::kForward);
    if (is_tied) s.parallelism->reshard(tied);
    s.parallelism->reshard(block);
  }
}

std::vector<int64_t> samples_in_order(const RankState& s, const Samples& samples,
                                      int64_t micro_batch) {
  const int64_t most = s.config().batch.micro_batch_size;
  std::vector<int64_t> found;
  const int64_t end = std::min((micro_batch + 1) * most, samples.num_samples());
  for (int64_t sample = micro_batch * most; sample < end; ++sample) found.push_back(sample);
  return found;
}

int64_t num_micro_batches_of(const RankState& s, const Samples& samples) {
  const int64_t most = s.config().batch.micro_batch_size;
  return (samples.num_samples() + most - 1) / most;
}

}  // namespace lockstep::runtime
