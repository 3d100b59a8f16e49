#include "operator/cli/manifest_input.h"

#include <iostream>
#include <map>

#include "operator/local/input_files.h"
#include "operator/local/localize.h"

namespace lockstep::cli {

namespace {

void print(const common::Problems& problems, const std::string& file) {
  for (const common::Problem& problem : problems) {
    std::cerr << (problem.warning ? "" : "error: ") << common::to_string(problem, file) << "\n";
  }
}

// "NAME=PATH" of --input; a problem for what is not of that form.
std::map<std::string, std::string> parse_inputs(const std::vector<std::string>& inputs,
                                                common::Problems& problems) {
  std::map<std::string, std::string> parsed;
  for (const std::string& input : inputs) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == input.size()) {
      problems.push_back({"--input", 0, "expected NAME=PATH, found '" + input + "'", "", false});
      continue;
    }
    parsed[input.substr(0, equals)] = input.substr(equals + 1);
  }
  return parsed;
}

}  // namespace

std::optional<api::Manifest> load_and_report(const ManifestArguments& arguments,
                                             MissingInputs missing_inputs) {
  common::Result<api::Manifest> loaded = api::load_manifest(arguments.file, arguments.sets);
  if (!loaded) {
    std::cerr << "error: " << loaded.error().message;
    if (!loaded.error().hint.empty()) std::cerr << " (" << loaded.error().hint << ")";
    std::cerr << "\n";
    return std::nullopt;
  }
  api::Manifest manifest = std::move(loaded).value();
  common::Problems problems = manifest.problems;
  const std::map<std::string, std::string> inputs = parse_inputs(arguments.inputs, problems);
  if (!common::has_errors(problems)) {
    manifest.job = local::localize(std::move(manifest.job), inputs, problems);
    for (common::Problem missing : local::find_missing_inputs(manifest.job)) {
      missing.warning = missing_inputs == MissingInputs::kWarn;
      problems.push_back(std::move(missing));
    }
    for (common::Problem& wrong : local::find_model_problems(manifest.job)) {
      problems.push_back(std::move(wrong));
    }
  }
  print(problems, arguments.file);
  if (common::has_errors(problems)) return std::nullopt;
  return manifest;
}

}  // namespace lockstep::cli
