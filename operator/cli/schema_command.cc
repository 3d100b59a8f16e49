#include "operator/cli/schema_command.h"

#include <iostream>

#include "operator/api/crd.h"
#include "operator/api/job_fields.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "runtime/common/schema.h"

namespace lockstep::cli {
namespace {

struct SchemaArguments {
  bool markdown = false;
};

int print_schema(const SchemaArguments& arguments) {
  std::cout << (arguments.markdown ? common::markdown_reference(api::spec_fields(), "spec")
                                   : api::crd_yaml());
  return kOk;
}

}  // namespace

void add_schema(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("schema", "print the CustomResourceDefinition");
  verb.group(kPrepareGroup);
  SchemaArguments& arguments = run_when_parsed(verb, status, print_schema);
  verb.add_flag("--markdown", arguments.markdown,
                "print the reference of spec as Markdown instead");
}

}  // namespace lockstep::cli
