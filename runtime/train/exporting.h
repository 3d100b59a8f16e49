// The trained model as a folder of config.json and safetensors, or its adapters as PEFT writes
// them.
#pragma once

#include <functional>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Rank 0 reads what an export takes over into s.carried, if there will be one: when training
// starts, for the files may be gone when it ends. Every rank must call it. Throws RunError of a
// file that cannot be read or used, PeerLostError on the others.
void read_what_export_takes_over(RankState& s);

// Writes OUTPUT/model/{config.json, model.safetensors}, of adapters that are not merged
// OUTPUT/model/{adapter_config.json, adapter_model.safetensors}, and beside them the files of
// s.carried, the tokenizer's: every rank its own slices, straight into the file, rank 0 the rest.
// The folder appears as a whole, by rename. Every rank must call it. Throws
// RunError(kOutputUnwritable) on the rank that failed, PeerLostError on the others.
void export_model(RankState& s, Disk& disk);

// Rank 0 writes what lies beside model.safetensors in `folder`.
using WriteRest = std::function<common::Result<void>(const std::string& folder)>;
// The same of a model of the caller's own.
void export_model(RankState& s, Disk& disk, const WriteRest& write_rest);

}  // namespace lockstep::runtime
