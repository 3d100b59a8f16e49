#include "operator/cli/manifest_input.h"

#include <iostream>
#include <map>

#include "operator/local/input_files.h"
#include "operator/local/localize.h"

namespace lockstep::cli {

namespace {

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

void print_problems(const common::Problems& problems, const std::string& file) {
  for (const common::Problem& problem : problems) {
    std::cerr << (problem.warning ? "" : "error: ") << common::to_string(problem, file) << "\n";
  }
}

void check_against_here(api::Manifest& manifest, const std::vector<std::string>& inputs,
                        MissingInputs missing_inputs) {
  common::Problems& problems = manifest.problems;
  const std::map<std::string, std::string> paths = parse_inputs(inputs, problems);
  if (common::has_errors(problems)) return;
  manifest.job = local::localize(std::move(manifest.job), paths, problems);
  for (common::Problem missing : local::find_missing_inputs(manifest.job)) {
    missing.warning = missing_inputs == MissingInputs::kWarn;
    problems.push_back(std::move(missing));
  }
  for (common::Problem& wrong : local::find_model_problems(manifest.job)) {
    problems.push_back(std::move(wrong));
  }
  for (std::string& line : local::explain_hub_inputs(manifest.job)) {
    manifest.resolved.push_back(std::move(line));
  }
}

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
  check_against_here(manifest, arguments.inputs, missing_inputs);
  print_problems(manifest.problems, arguments.file);
  if (common::has_errors(manifest.problems)) return std::nullopt;
  return manifest;
}

}  // namespace lockstep::cli
