// Gathers what facts.h names. Blocks for the start of lockstep-runtime and of a GPU's driver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/machine/facts.h"
#include "operator/machine/proc_text.h"

namespace lockstep::machine {

struct Asked {
  std::string master = "127.0.0.1";  // whose route is looked for
  std::string shared_memory = "/dev/shm";
  std::string output = ".";      // a folder that a job writes to; need not be there yet
  std::vector<PortFacts> ports;  // is_free is found out
};

// All but versions and the runtime, which the caller knows.
MachineFacts read_facts(const Asked& asked);

// The text of a file; nothing if it cannot be read.
std::optional<std::string> read_text(const std::string& path);

}  // namespace lockstep::machine
