// InstructLab's config.yaml, as a TrainingJob: its `train` section.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of every key of an InstructLab configuration; also of the shape that RHEL AI's
// guides show, with `model.base` and `train.deepspeed`. Source of keys:
// instructlab/configuration.py; of what they do: instructlab/training, config.py and
// accelerator.py.
const Table& instructlab_table();

// A whole configuration. Never throws.
Conversion convert_instructlab(const common::Document& document);

}  // namespace lockstep::convert
