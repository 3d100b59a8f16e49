// How a verb comes into the command line: its file offers add_X(app, status), verbs.cc calls it.
// The verb runs as CLI11's callback, after the whole command line was parsed, and leaves its exit
// status (exit_status.h) in `status`, which outlives the parsing.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "operator/cli/manifest_input.h"

namespace lockstep::cli {

// The groups of `lockstep --help`, in the order in which verbs.cc adds their verbs.
inline constexpr const char* kPrepareGroup = "Prepare a job";
inline constexpr const char* kTrainGroup = "Train and use";
inline constexpr const char* kLookGroup = "Look at a run";
inline constexpr const char* kMachineGroup = "This machine and the command line";

// What one verb takes from the command line: filled by parsing, then `act` gets it. Bind the verb's
// options to what is returned; the verb owns it.
template <typename Arguments>
Arguments& run_when_parsed(CLI::App& verb, int& status, int (*act)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  verb.callback([arguments, &status, act] { status = act(*arguments); });
  return *arguments;
}

// --set path=value, one value per flag. `what` is the help's line.
void add_sets(CLI::App& verb, std::vector<std::string>& sets, const std::string& what);
// The file of a manifest, with --set and --input.
void add_manifest_arguments(CLI::App& verb, ManifestArguments& arguments);

}  // namespace lockstep::cli
