#include "operator/cli/compare_command.h"

#include <iostream>

#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "operator/runs/comparison.h"
#include "operator/runs/run_files.h"

namespace lockstep::cli {
namespace {

struct CompareArguments {
  std::string a, b;
  std::string output = "text";  // or json
};

std::optional<runs::RunRecord> load_run(const std::string& folder) {
  const common::Result<runs::RunFiles> files = runs::read_run_files(folder);
  if (!files) {
    std::cerr << "error: " << files.error().message << " (" << files.error().hint << ")\n";
    return std::nullopt;
  }
  runs::RunRecord run = runs::parse_run(*files);
  for (const std::string& trouble : run.troubles) {
    std::cerr << "warning: " << folder << ": " << trouble << "\n";
  }
  return run;
}

int compare(const CompareArguments& arguments) {
  const std::optional<runs::RunRecord> a = load_run(arguments.a);
  const std::optional<runs::RunRecord> b = load_run(arguments.b);
  if (!a || !b) return kInvalidFile;
  runs::Comparison comparison = runs::compare_runs(*a, *b);
  const common::Result<runs::WeightsComparison> weights =
      runs::compare_weights(arguments.a + "/model", arguments.b + "/model");
  if (weights) {
    comparison.weights = *weights;
  } else if (weights.error().code == common::ErrorCode::kNotFound) {
    comparison.why_no_weights = weights.error().message;
  } else {
    std::cerr << "error: " << weights.error().message << "\n";
    return kInvalidFile;
  }
  if (!runs::has_common_ground(comparison)) {
    std::cerr << "error: the runs have neither a logged step nor exported weights in common\n";
    return kInvalidFile;
  }
  std::cout << (arguments.output == "json" ? runs::to_json(comparison).dump(2) + "\n"
                                           : runs::render(comparison));
  return runs::differ(comparison) ? kDiffer : kOk;
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("compare", "compare two runs, down to the bits");
  verb.group(kLookGroup);
  CompareArguments& arguments = run_when_parsed(verb, status, compare);
  verb.add_option("a", arguments.a, "the output folder of a run")->required()->type_name("FOLDER");
  verb.add_option("b", arguments.b, "that of another")->required()->type_name("FOLDER");
  verb.add_option("--output", arguments.output, "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "Exit status: 0 what was computed is the same: losses, norms and rates of all steps that\n"
      "both logged, and exported weights; 5 it differs; 3 a folder is no run, or they have\n"
      "nothing in common. Configuration and speed are told, and do not count.");
}

}  // namespace lockstep::cli
