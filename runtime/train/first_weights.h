// The weights that training begins with: random numbers, or those of model.path.
#pragma once

#include "runtime/common/exit_code.h"
#include "runtime/common/result.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// How a run ends that cannot open or read weights.
common::ExitCode exit_code_of_weights(const common::Error& error);

// Where the weights of model.path are the first ones: opens its files on all ranks and checks them
// against the model, before anything is prepared for them. Does nothing else.
// Every rank must call it. Throws RunError: kInputNotFound, kInvalidData, kInternal; kInvalidData
// also if this rank sees other files than rank 0. PeerLostError if it is wrong elsewhere.
void open_pretrained(RankState& s);

// Fills the weights beside adapters with those of model.path, each rank its own part; does nothing
// without adapters. Every rank must call it, before the first weights_updated(). Throws as
// open_pretrained().
void fill_base_weights(RankState& s);

// Fills s.parallelism's weights, each rank its own, and sets the moments to zero; those of adapters
// are random numbers and zeros. Every rank must call it. Throws as open_pretrained().
void fill_first_weights(RankState& s);

}  // namespace lockstep::runtime
