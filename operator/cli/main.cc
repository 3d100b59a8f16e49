// lockstep: the command line.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/compare_command.h"
#include "operator/cli/completion.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/import_command.h"
#include "operator/cli/report_command.h"
#include "operator/cli/run_command.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/schema_command.h"
#include "operator/cli/validate_command.h"

namespace lockstep::cli {
namespace {

// The verbs, in the order in which --help lists them.
void add_verbs(CLI::App& app, int& status) {
  add_import(app, status);
  add_validate(app, status);
  add_plan(app, status);
  add_estimate(app, status);
  add_schema(app, status);
  add_run(app, status);
  add_runtime_verbs(app, status);
  add_cluster_verbs(app, status);
  add_report(app, status);
  add_compare(app, status);
  add_completion(app, status);
}

int run_verb(int argc, char** argv) {
  CLI::App app("Trains language models in step across any number of processes.",
               command_name(argv[0]));
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(16);
  int status = kOk;
  add_verbs(app, status);
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
  return status;
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
