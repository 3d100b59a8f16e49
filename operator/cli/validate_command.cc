#include "operator/cli/validate_command.h"

#include <iostream>

#include "operator/cli/advice.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "runtime/common/teacher_model.h"

namespace lockstep::cli {
namespace {

// Nothing where the training is a program of one's own, or needs a model that is elsewhere.
void print_advice(const api::TrainingJob& job) {
  if (job.spec.train.is_null()) return;
  const auto complete = common::complete_train(job.spec.train, job.spec.ranks);
  if (!complete) return;
  const auto train = common::decode_with_teacher(*complete);
  if (!train) return;
  for (const std::string& advice : advise(*train)) std::cout << "  advice: " << advice << "\n";
}

int validate(const ManifestArguments& arguments) {
  const std::optional<api::Manifest> manifest = load_and_report(arguments, MissingInputs::kWarn);
  if (!manifest) return kInvalidFile;
  std::cout << arguments.file << ": valid\n";
  for (const std::string& line : manifest->resolved) std::cout << "  " << line << "\n";
  for (const std::string& line : explain_arithmetic(manifest->job)) {
    std::cout << "  " << line << "\n";
  }
  print_advice(manifest->job);
  if (manifest->num_other_documents > 0) {
    std::cout << "  " << manifest->num_other_documents << " other documents ignored\n";
  }
  return kOk;
}

}  // namespace

void add_validate(CLI::App& app, int& status) {
  CLI::App& verb =
      *app.add_subcommand("validate", "print every problem of a manifest, and what was resolved");
  verb.group(kPrepareGroup);
  add_manifest_arguments(verb, run_when_parsed(verb, status, validate));
  verb.footer(
      "Example: lockstep validate job.yaml --set train.parallelism.strategy=zero3\n"
      "Exit status: 0 valid, warnings or not; 3 there are errors.");
}

}  // namespace lockstep::cli
