// DeepSpeed's JSON configuration, as a TrainingJob.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of every key of a DeepSpeed configuration.
// Source of keys and defaults: DeepSpeed's docs/_pages/config-json.md, runtime/zero/config.py,
// runtime/zero/offload_config.py, runtime/lr_schedules.py; of "auto": Accelerate's
// usage_guides/deepspeed.md.
const Table& deepspeed_table();

// The part of deepspeed_table() below "zero_optimization".
Table deepspeed_zero_rows();
// The parts below "optimizer" and "scheduler".
Table deepspeed_optimizer_rows();

// What DeepSpeed does where "optimizer" and "scheduler" say nothing; after take_all() on them.
void assume_deepspeed_optimizer_defaults(Draft& draft);

// A whole configuration. Never throws.
Conversion convert_deepspeed(const common::Document& document);

}  // namespace lockstep::convert
