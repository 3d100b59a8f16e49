// lockstep: the command line.
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "operator/api/crd.h"
#include "operator/api/job_fields.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/import_command.h"
#include "operator/cli/manifest_input.h"
#include "operator/cli/run_command.h"
#include "operator/cli/runtime_program.h"
#include "operator/convert/import_source.h"
#include "runtime/common/schema.h"

namespace lockstep::cli {
namespace {

// What the verbs take from the command line.
struct Arguments {
  RunArguments run;
  ManifestArguments manifest;  // of validate, plan and estimate
  ImportArguments import;
  bool json = false;      // of estimate
  bool markdown = false;  // of schema
};

void add_manifest_arguments(CLI::App& verb, ManifestArguments& arguments) {
  verb.add_option("file", arguments.file, "a TrainingJob, or a training configuration alone")
      ->required();
  verb.add_option("--set", arguments.sets, "path=value, e.g. train.steps=50; may be repeated");
  verb.add_option("--input", arguments.inputs,
                  "NAME=PATH: stands for an input's volume; may be repeated");
}

void add_import(CLI::App& app, ImportArguments& arguments) {
  CLI::App& verb = *app.add_subcommand(
      "import", "make a manifest of another tool's configuration, and say what became of each key");
  verb.add_option("source", arguments.source,
                  "a file, e.g. ds_config.json; or behind -- a command line: torchrun, accelerate "
                  "launch, deepspeed, aitraining")
      ->required();
  verb.add_option("--from", arguments.from, "whose it is, unless what is in it tells")
      ->check(CLI::IsMember(convert::source_kinds()));
  verb.add_option("--set", arguments.sets,
                  "path=value for what the configuration leaves open; may be repeated")
      ->allow_extra_args(false);  // else it would take "--" for its own
  verb.add_option("--output", arguments.output, "json: manifest and lists, for machines")
      ->check(CLI::IsMember({"yaml", "json"}));
  verb.footer(
      "The manifest goes to standard output, what became of every key to standard error.\n"
      "Exit status: 0 all mapped or changed; 4 some refused, the manifest is without them;\n"
      "3 the configuration is broken, no manifest.");
}

// Declares the verbs; `arguments` is filled by app.parse() and outlives `app`.
void add_verbs(CLI::App& app, Arguments& arguments) {
  CLI::App& run = *app.add_subcommand("run", "run a job here, with processes in place of pods");
  add_manifest_arguments(run, arguments.run.manifest);
  run.add_option("--output", arguments.run.output,
                 "stands for the manifest's output; default runs/<job>");
  run.add_flag("--dry-run", arguments.run.dry_run, "print what would be created, start nothing");
  run.add_flag("--resume", arguments.run.resume, "take up a finished output again");
  run.add_flag("--overwrite", arguments.run.overwrite, "start afresh in a used output");

  add_manifest_arguments(
      *app.add_subcommand("validate", "print every problem of a manifest, and what was resolved"),
      arguments.manifest);
  add_manifest_arguments(
      *app.add_subcommand("plan", "print the objects that the operator would create"),
      arguments.manifest);

  CLI::App& estimate =
      *app.add_subcommand("estimate", "print what a rank will hold in memory, per strategy");
  add_manifest_arguments(estimate, arguments.manifest);
  estimate
      .add_option_function<std::string>(
          "--output", [&arguments](const std::string& form) { arguments.json = form == "json"; },
          "json: for machines")
      ->check(CLI::IsMember({"text", "json"}));

  add_import(app, arguments.import);

  CLI::App& schema = *app.add_subcommand("schema", "print the CustomResourceDefinition");
  schema.add_flag("--markdown", arguments.markdown,
                  "print the reference of spec as Markdown instead");

  // What touches tensors or tokens is the runtime's: it reads these arguments, and --help.
  for (const auto& [name, what] :
       {std::pair("generate", "sample text from a trained model"),
        std::pair("tokenize", "make a token file of text or JSON lines, to train on"),
        std::pair("bench", "measure this machine: bench collectives")}) {
    CLI::App& verb = *app.add_subcommand(name, what);
    verb.prefix_command();
    verb.set_help_flag();
  }
}

int validate(const ManifestArguments& arguments) {
  const std::optional<api::Manifest> manifest = load_and_report(arguments, MissingInputs::kWarn);
  if (!manifest) return kInvalidFile;
  std::cout << arguments.file << ": valid\n";
  for (const std::string& line : manifest->resolved) std::cout << "  " << line << "\n";
  if (const auto strategy = explain_auto_strategy(manifest->job)) {
    std::cout << "  " << *strategy << "\n";
  }
  if (manifest->num_other_documents > 0) {
    std::cout << "  " << manifest->num_other_documents << " other documents ignored\n";
  }
  return kOk;
}

int print_schema(bool markdown) {
  std::cout << (markdown ? common::markdown_reference(api::spec_fields(), "spec")
                         : api::crd_yaml());
  return kOk;
}

// Hands the verb over to lockstep-runtime.
int run_in_runtime(const CLI::App& verb) {
  std::vector<std::string> arguments = verb.remaining();
  arguments.insert(arguments.begin(), verb.get_name());
  return run_runtime(find_runtime(), arguments);
}

int run_verb(int argc, char** argv) {
  CLI::App app("Trains language models in step across any number of processes.", "lockstep");
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  add_verbs(app, arguments);
  if (argc < 2) {
    std::cerr << app.help();
    return kUsage;
  }
  const std::string verb = argv[1];
  const auto is_it = [&verb](const CLI::App* known) { return known->get_name() == verb; };
  if (!verb.starts_with('-') && app.get_subcommands(is_it).empty()) {
    std::cerr << "error: there is no verb '" << verb << "'; see lockstep --help\n";
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  if (verb == "run") return run(arguments.run);
  if (verb == "validate") return validate(arguments.manifest);
  if (verb == "plan") return print_plan(arguments.manifest);
  if (verb == "estimate") return estimate(arguments.manifest, arguments.json);
  if (verb == "import") return import_config(arguments.import);
  if (verb == "schema") return print_schema(arguments.markdown);
  return run_in_runtime(*app.get_subcommand(verb));
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  try {
    return lockstep::cli::run_verb(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return lockstep::cli::kFailed;
  }
}
