#include "operator/cli/fetch_command.h"

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "operator/cli/exit_status.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/verb.h"
#include "runtime/common/hub_inputs.h"

namespace lockstep::cli {
namespace {

struct FetchArguments {
  ManifestArguments manifest;  // its file may be a reference
  bool is_data = false;
  bool is_validation = false;
};

// The words for lockstep-runtime; nothing if the manifest is wrong, or names nothing on the hub.
std::optional<std::vector<std::string>> runtime_words(const FetchArguments& arguments,
                                                      int& status) {
  const std::string& target = arguments.manifest.file;
  if (common::is_hub_reference(target)) {
    std::vector<std::string> words = {"fetch", target};
    if (arguments.is_data) words.emplace_back("--data");
    if (arguments.is_validation) words.emplace_back("--validation");
    return words;
  }
  status = kInvalidFile;
  const std::optional<api::Manifest> manifest =
      load_and_report(arguments.manifest, MissingInputs::kWarn);
  if (!manifest) return std::nullopt;
  const nlohmann::json& train = manifest->job.spec.train;
  if (common::hub_inputs(train).empty()) {
    std::cerr << target << " names nothing on the hub\n";
    status = kOk;
    return std::nullopt;
  }
  return std::vector<std::string>{"fetch", "--train", train.dump()};
}

int fetch(const FetchArguments& arguments) {
  int status = kOk;
  const auto words = runtime_words(arguments, status);
  return words ? run_runtime(find_runtime(), *words) : status;
}

}  // namespace

void add_fetch(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand(
      "fetch", "fetch hf://ORG/NAME, or all that a manifest names so, and print where it lies");
  verb.group(kPrepareGroup);
  FetchArguments& arguments = run_when_parsed(verb, status, fetch);
  add_manifest_arguments(verb, arguments.manifest);
  verb.add_flag("--data", arguments.is_data, "the reference names a data set, not a model");
  verb.add_flag("--validation", arguments.is_validation,
                "of a data set, the part to validate on; else that to train on");
  verb.footer(
      "The cache is huggingface_hub's: $HF_HOME/hub, else ~/.cache/huggingface/hub. HF_TOKEN "
      "opens\n"
      "gated and private repositories, HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 stays in "
      "the\n"
      "cache. Exit status: 66 not on the hub or no access; 69 the hub cannot be reached for now.");
}

}  // namespace lockstep::cli
