// lockstep: the command line.
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "operator/api/crd.h"
#include "operator/api/job_fields.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/manifest_input.h"
#include "operator/cli/run_command.h"
#include "operator/cli/runtime_program.h"
#include "runtime/common/schema.h"

namespace {

using namespace lockstep;

void add_manifest_arguments(CLI::App& verb, cli::ManifestArguments& arguments) {
  verb.add_option("file", arguments.file, "a TrainingJob, or a training configuration alone")
      ->required();
  verb.add_option("--set", arguments.sets, "path=value, e.g. train.steps=50; may be repeated");
  verb.add_option("--input", arguments.inputs,
                  "NAME=PATH: stands for an input's volume; may be repeated");
}

int validate(const cli::ManifestArguments& arguments) {
  const std::optional<api::Manifest> manifest =
      cli::load_and_report(arguments, cli::MissingInputs::kWarn);
  if (!manifest) return cli::kInvalidFile;
  std::cout << arguments.file << ": valid\n";
  for (const std::string& line : manifest->resolved) std::cout << "  " << line << "\n";
  if (manifest->num_other_documents > 0) {
    std::cout << "  " << manifest->num_other_documents << " other documents ignored\n";
  }
  return cli::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains language models in step across any number of processes.", "lockstep");
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);

  cli::RunArguments run;
  CLI::App& run_verb =
      *app.add_subcommand("run", "run a job here, with processes in place of pods");
  add_manifest_arguments(run_verb, run.manifest);
  run_verb.add_option("--output", run.output,
                      "stands for the manifest's output; default runs/<job>");
  run_verb.add_flag("--dry-run", run.dry_run, "print what would be created, start nothing");
  run_verb.add_flag("--resume", run.resume, "take up a finished output again");
  run_verb.add_flag("--overwrite", run.overwrite, "start afresh in a used output");

  cli::ManifestArguments manifest;
  CLI::App& validate_verb =
      *app.add_subcommand("validate", "print every problem of a manifest, and what was resolved");
  add_manifest_arguments(validate_verb, manifest);
  CLI::App& plan_verb =
      *app.add_subcommand("plan", "print the objects that the operator would create");
  add_manifest_arguments(plan_verb, manifest);

  bool markdown = false;
  CLI::App& schema_verb = *app.add_subcommand("schema", "print the CustomResourceDefinition");
  schema_verb.add_flag("--markdown", markdown, "print the reference of spec as Markdown instead");
  CLI::App& generate_verb = *app.add_subcommand("generate", "sample text from a trained model");
  generate_verb.prefix_command();
  generate_verb.set_help_flag();

  if (argc < 2) {
    std::cerr << app.help();
    return cli::kUsage;
  }
  const std::string verb = argv[1];
  const auto is_it = [&verb](const CLI::App* known) { return known->get_name() == verb; };
  if (!verb.starts_with('-') && app.get_subcommands(is_it).empty()) {
    std::cerr << "error: there is no verb '" << verb << "'; see lockstep --help\n";
    return cli::kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  if (run_verb.parsed()) return cli::run(run);
  if (validate_verb.parsed()) return validate(manifest);
  if (plan_verb.parsed()) return cli::print_plan(manifest);
  if (schema_verb.parsed()) {
    std::cout << (markdown ? common::markdown_reference(api::spec_fields(), "spec")
                           : api::crd_yaml());
    return cli::kOk;
  }
  std::vector<std::string> arguments = generate_verb.remaining();
  arguments.insert(arguments.begin(), "generate");
  return cli::run_runtime(cli::find_runtime(), arguments);
}
