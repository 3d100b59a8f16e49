// Which row of the data a pair of answers is, to name it to the user.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"
#include "runtime/data/held_out.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// The place, "pairs.jsonl:17", of pair `pair` (from 0) of the samples of `share`: of training, or
// what is measured on, held out or not. Reads the files again, so it takes as long as tokenizing
// them; goes_on as of find_pair(). Errors of files and tokenizer, and as find_pair().
common::Result<std::string> place_of_pair(const RankState& s, Disk& disk, Share share, int64_t pair,
                                          const std::function<bool()>& goes_on);

}  // namespace lockstep::runtime
