// Names inside OUTPUT/checkpoints. Only `step-N` is ever a checkpoint; all else is on its way in or
// out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/manifest.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

std::string checkpoints_folder(const std::string& output);
std::string step_name(int64_t step);  // "step-N"
// ".attempt-A-step-N": where the shards of one save gather.
std::string attempt_name(int64_t attempt, int64_t step);
std::string shard_name(int64_t rank);  // "rank-R.bin"

struct AttemptStep {
  int64_t attempt = 0;
  int64_t step = 0;
};
// The inverses; nothing for any other name.
std::optional<int64_t> parse_step_name(std::string_view name);
std::optional<AttemptStep> parse_attempt_name(std::string_view name);

int64_t piece_bytes(const Piece& piece);

// kDataLoss, naming the file, if a file that `manifest` names is missing in `folder` or has not
// exactly the length that its pieces need. What else keeps a file from being looked at is an error
// of its own: it tells nothing about the checkpoint.
common::Result<void> check_file_sizes(const std::string& folder, const Manifest& manifest);

}  // namespace lockstep::runtime
