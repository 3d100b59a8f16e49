// The trained model as a Hugging Face directory.
#pragma once

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Writes OUTPUT/model/{config.json, model.safetensors}: every rank its own slices, straight into
// the file. The folder appears as a whole, by rename. Every rank must call it. Throws
// RunError(kOutputUnwritable) on the rank that failed, PeerLostError on the others.
void export_model(RankState& s, Disk& disk);

}  // namespace lockstep::runtime
