// What a rank's memory comes to, beside what estimate_memory() said.
#pragma once

#include <string_view>

#include "runtime/common/log.h"
#include "runtime/common/progress.h"

namespace lockstep::runtime {

// What this process takes, now and at most.
common::MemoryUse memory_now();

// One line of the log: bytes of the runtime's own buffers and of the whole process, now and at
// most.
//   when: "start" (before the model is built), "loaded" (weights and moments are there), "end".
void log_memory(const common::Log& log, std::string_view when);

}  // namespace lockstep::runtime
