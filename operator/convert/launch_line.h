// Command lines of launchers, as TrainingJobs: torchrun, accelerate launch, deepspeed; and of
// aitraining, which is a configuration in flags.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/convert/conversion.h"
#include "runtime/common/result.h"

namespace lockstep::convert {

// Contents of files that a command line names, or why they cannot be read, by the path that it
// names them by.
using NamedFiles = std::map<std::string, common::Result<std::string>>;

// The files to read before convert_command_line(): host files, Accelerate's configurations.
std::vector<std::string> files_of_command_line(const std::vector<std::string>& words);

// A launcher's words: {"NCCL_DEBUG=INFO", "torchrun", "--nproc-per-node=4", "train.py"}. Variables
// before it become spec.env, the script and its arguments spec.args; spec.command runs them once
// per pod by a launcher that reads the operator's environment. Keys in notes are flags, "-H" and
// "--nproc_per_node"; of aitraining without dashes, as in its file; and "ac.yaml: num_processes" of
// a file that the line names. Never throws; an unknown flag is a problem, for what follows it could
// be its value or the script, and so is a file that cannot be read.
Conversion convert_command_line(const std::vector<std::string>& words, const NamedFiles& files);

}  // namespace lockstep::convert
