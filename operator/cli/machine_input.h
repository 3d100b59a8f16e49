// What `lockstep env` and `lockstep doctor` look at: this machine, with the programs on it.
#pragma once

#include <string>
#include <vector>

#include "operator/machine/facts.h"

namespace lockstep::cli {

struct MachineArguments {
  std::string version;          // of this program
  std::string master;           // empty: $MASTER_ADDR, or this machine
  std::string output = "runs";  // where runs are written to
  std::vector<int> ports;       // that must be free, besides those that the environment names
};

// Gathers; starts lockstep-runtime once to ask for its version.
machine::MachineFacts facts_of_machine(const MachineArguments& arguments);

// A program by what `PROGRAM --version` told: "lockstep-runtime 0.1.0, LibTorch 2.11.0". Pure.
machine::ProgramFacts parse_program(const std::string& path, const std::string& told);

}  // namespace lockstep::cli
