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

// Adds to manifest.problems what is wrong with the job on this machine: inputs that are not as
// "NAME=PATH", files that are not here, a model that cannot be read; applies `inputs`. Does nothing
// if there are errors already.
void check_against_here(api::Manifest& manifest, const std::vector<std::string>& inputs,
                        MissingInputs missing_inputs);

// To standard error, "FILE:LINE: path: message (hint)" each.
void print_problems(const common::Problems& problems, const std::string& file);

// Prints problems and warnings to standard error, "FILE:LINE: path: message (hint)" each. Nothing
// if there are errors.
std::optional<api::Manifest> load_and_report(const ManifestArguments& arguments,
                                             MissingInputs missing_inputs);

}  // namespace lockstep::cli
