// The flags of launchers: what becomes of each, which have no value, and those of Accelerate that
// stay in its command.
#pragma once

#include <string>
#include <vector>

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of the flags of each launcher.
// Source: torch/distributed/run.py, accelerate/commands/launch.py, deepspeed/launcher/runner.py.
const Table& torchrun_table();
const Table& accelerate_launch_table();
const Table& deepspeed_launch_table();

const std::vector<std::string>& torchrun_switches();
const std::vector<std::string>& accelerate_switches();
const std::vector<std::string>& deepspeed_switches();

// The words of those flags of accelerate launch that go along unchanged: mixed precision, FSDP,
// DeepSpeed and the like are the script's matter. `flags` is a document of parse_flags().
std::vector<std::string> kept_accelerate_flags(const nlohmann::json& flags);

}  // namespace lockstep::convert
