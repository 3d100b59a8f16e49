// What the model says of pairs of answers before it is trained: the reference of dpo.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/resume.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Note [The reference of DPO]
// The reference is the model with its first weights, those of an adapter to go on from included, as
// in TRL. Nothing else changes it, so its log-probability of each answer is computed once, before
// training, and there never is a second model in memory. They are kept beside the tokens of the
// output, OUTPUT/tokens/reference.{train,validation}: a line of JSON that names what they are of
// (weights by their fingerprint, sizes and times of change), then a little-endian double per
// answer, [2 * pairs]. An attempt that goes on reads them; where
// they are missing, damaged or of something else it fills the first weights once more, and computes
// them before it loads its checkpoint.

// The text of a file of log-probabilities.
//   key: an object that names what they are of.
std::string encode_reference(nlohmann::json key, const std::vector<double>& log_probs);
// The inverse. Empty if `text` is damaged, or of something else than `key`.
std::vector<double> decode_reference(std::string_view text, const nlohmann::json& key);

// Under task dpo fills s.reference and s.validation_reference, which are empty under others.
// Returns whether it filled the first weights for that. While it computes, `board` is in phase
// "reference" and shows how many pairs are done, and rank 0 logs it.
// Every rank must call it, before weights are filled otherwise. Throws what filling and collectives
// throw, RunError(kNonFinite) naming the row for a log-probability that is no number, and RunError
// of the output and the data.
bool prepare_reference(RankState& s, Disk& disk, StatusBoard& board, const FillFirstWeights& fill);

}  // namespace lockstep::runtime
