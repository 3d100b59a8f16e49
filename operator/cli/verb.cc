#include "operator/cli/verb.h"

namespace lockstep::cli {

void add_sets(CLI::App& verb, std::vector<std::string>& sets, const std::string& what) {
  verb.add_option("--set", sets, what)->type_name("PATH=VALUE")->allow_extra_args(false);
}

void add_manifest_arguments(CLI::App& verb, ManifestArguments& arguments) {
  verb.add_option("file", arguments.file, "a TrainingJob, or a training configuration alone")
      ->required()
      ->type_name("FILE");
  add_sets(verb, arguments.sets, "set a field, e.g. train.steps=50; may be repeated");
  verb.add_option("--input", arguments.inputs, "stands for an input's volume; may be repeated")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
}

}  // namespace lockstep::cli
