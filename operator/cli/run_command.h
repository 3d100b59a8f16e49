// `lockstep run`: the job of a manifest on this machine.
#pragma once

#include <string>

#include "operator/cli/manifest_input.h"

namespace lockstep::cli {

struct RunArguments {
  ManifestArguments manifest;
  std::string output;      // empty: runs/<job>
  bool dry_run = false;    // print the plan, start nothing
  bool resume = false;     // take up a finished output again
  bool overwrite = false;  // start afresh in a used output
};

// Returns an exit status (exit_status.h). Results go to standard output, talk to standard error.
int run(const RunArguments& arguments);

// `lockstep plan`: the objects that the first plan would create, as YAML documents.
int print_plan(const ManifestArguments& arguments);

}  // namespace lockstep::cli
