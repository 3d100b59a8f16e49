#include "operator/cli/schema_command.h"

#include <iostream>

#include "operator/api/crd.h"
#include "operator/api/editor_schema.h"
#include "operator/api/job_fields.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "runtime/common/schema.h"

namespace lockstep::cli {
namespace {

struct SchemaArguments {
  bool json = false;
  bool markdown = false;
};

int print_schema(const SchemaArguments& arguments) {
  if (arguments.json) {
    std::cout << api::editor_schema().dump(2) << "\n";
  } else if (arguments.markdown) {
    std::cout << common::markdown_reference(api::spec_fields(), "spec");
  } else {
    std::cout << api::crd_yaml();
  }
  return kOk;
}

}  // namespace

void add_schema(CLI::App& app, int& status) {
  CLI::App& verb =
      *app.add_subcommand("schema", "print the CustomResourceDefinition, or a schema for editors");
  verb.group(kPrepareGroup);
  SchemaArguments& arguments = run_when_parsed(verb, status, print_schema);
  CLI::Option* const json =
      verb.add_flag("--json", arguments.json, "print a JSON schema, with which editors complete");
  verb.add_flag("--markdown", arguments.markdown, "print the reference of spec as Markdown")
      ->excludes(json);
  verb.footer(
      "For editors: lockstep schema --json > job.schema.json, and as the manifest's first line\n"
      "# yaml-language-server: $schema=job.schema.json");
}

}  // namespace lockstep::cli
