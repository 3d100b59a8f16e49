// AITraining's (AutoTrain's) YAML and command line, as a TrainingJob.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of every parameter of LLMTrainingParams by its own name ("lora_r"), and of the keys
// around them ("task", "log", "hub").
// Source of keys and defaults: autotrain/trainers/clm/params.py, autotrain/parser.py,
// autotrain/commands.py of AITraining 0.0.54.
const Table& aitraining_table();

// A configuration with its groups (`data`, `params`, `hub`) and lists of columns. Never throws.
Conversion convert_aitraining(const common::Document& document);

}  // namespace lockstep::convert
