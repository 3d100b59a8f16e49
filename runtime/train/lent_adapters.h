// The adapters of a layer for the time of one call of its block.
#pragma once

#include <cstdint>

#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

enum class Pass { kForward, kBackward };

// Gets the adapters of `block` and lends them to the decoder's next call, which must be of that
// block; from then on the next ones are fetched ahead in the direction of the pass. Does nothing
// for a block without adapters. Every rank must call it, in the same order. Blocks, throws as
// Parallelism::unshard().
inline void lend_adapters(RankState& s, int64_t block, Pass pass) {
  const int64_t unit = s.decoder->adapter_unit(block);
  if (unit < 0) return;
  const bool is_backward = pass == Pass::kBackward;
  const int64_t next = s.decoder->adapter_unit(is_backward ? block - 1 : block + 1);
  s.decoder->lend_adapters(s.parallelism->unshard(unit, next),
                           is_backward ? s.parallelism->gradient_buffer(unit) : nullptr);
}

// Gives them back after that call; after a backward their gradient is ready.
inline void return_adapters(RankState& s, int64_t block, Pass pass) {
  const int64_t unit = s.decoder->adapter_unit(block);
  if (unit < 0) return;
  s.parallelism->reshard(unit);
  if (pass == Pass::kBackward) s.parallelism->gradient_ready(unit);
}

}  // namespace lockstep::runtime
