// The model that task distill learns from, as far as its config.json tells.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"

namespace lockstep::common {

// The model in `train.distill.teacher`, a directory.
// Errors: kInvalidArgument if it has another vocabulary than the model that learns, or shorter
// sequences; those of read_config_json().
Result<ModelConfig> read_teacher(const TrainConfig& train);

// decode_train(), with the teacher's model where the task is distill; that of a teacher which is
// still on the hub is left out.
//   train: as complete_train() returns it.
// Errors: as read_teacher(); messages name the field.
Result<TrainConfig> decode_with_teacher(const nlohmann::json& train);

}  // namespace lockstep::common
