// Accelerate's YAML configuration (accelerate config), as a TrainingJob.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of every key of an Accelerate configuration.
// Source of keys and defaults: accelerate/commands/config/config_args.py and
// accelerate/utils/dataclasses.py.
const Table& accelerate_table();

// A whole configuration. Never throws.
Conversion convert_accelerate(const common::Document& document);

}  // namespace lockstep::convert
