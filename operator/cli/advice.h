// What a person who has trained models would say about a job that is valid. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/train_config.h"

namespace lockstep::cli {

// How the batch is made: "batch: 64 sequences = 4 ranks x 16 micro-batches of 1; 16384 tokens a
// step, 16.4 M in 1000 steps".
std::string explain_batch(const common::TrainConfig& train, int64_t ranks);

// Advice, each with the field to set; empty if there is none. About the share of warm-up (1 to 5 %
// of the steps is what most recipes have), how the learning rate follows a changed batch, what a
// failure costs between checkpoints, and evaluation.
std::vector<std::string> advise(const common::TrainConfig& train);

}  // namespace lockstep::cli
