// Loads the manifest that a verb names and prints everything that is wrong with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/manifest.h"

namespace lockstep::cli {

// What to make of input files that are not on this machine.
enum class MissingInputs { kWarn, kRefuse };

struct ManifestArguments {
  std::string file;
  std::vector<std::string> sets;    // --set path=value
  std::vector<std::string> inputs;  // --input NAME=PATH
};

// Prints problems and warnings to standard error, "FILE:LINE: path: message (hint)" each. Nothing
// if there are errors.
std::optional<api::Manifest> load_and_report(const ManifestArguments& arguments,
                                             MissingInputs missing_inputs);

}  // namespace lockstep::cli
