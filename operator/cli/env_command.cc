#include "operator/cli/env_command.h"

#include <iostream>

#include "operator/cli/exit_status.h"
#include "operator/cli/machine_input.h"
#include "operator/cli/verb.h"
#include "operator/kube/kubeconfig.h"
#include "operator/machine/facts_text.h"
#include "runtime/common/document.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

struct EnvArguments {
  MachineArguments machine;
  bool is_json = false;
};

// The current context of the kubeconfig files; empty without one.
std::string current_context() {
  for (const std::string& path : kube::kubeconfig_paths("", kube::read_env)) {
    const common::Result<std::string> text = kube::read_file(path);
    if (!text) continue;
    const common::ParsedText parsed = common::parse_documents(*text);
    if (parsed.documents.empty() || !parsed.documents.front().value.is_object()) continue;
    const json& value = parsed.documents.front().value;
    const auto found = value.find("current-context");
    if (found != value.end() && found->is_string() && !found->get<std::string>().empty()) {
      return found->get<std::string>();
    }
  }
  return "";
}

// The API server of the current context; else the trouble with it.
std::string current_server() {
  const auto config = kube::load_kubeconfig({}, kube::read_env, kube::read_file);
  return config ? config->server : config.error().message;
}

int print_env(const EnvArguments& arguments) {
  const machine::MachineFacts facts = facts_of_machine(arguments.machine);
  const std::string context = current_context();
  const std::string server = context.empty() ? "" : current_server();
  if (arguments.is_json) {
    json object = machine::facts_json(facts);
    object["kubectl"] = json();
    if (!context.empty()) object["kubectl"] = {{"context", context}, {"server", server}};
    std::cout << object.dump(2) << "\n";
    return kOk;
  }
  std::cout << machine::facts_text(facts)
            << machine::fact_line("kubectl context",
                                  context.empty() ? "none" : context + " (" + server + ")");
  return kOk;
}

}  // namespace

void add_env(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("env", "print facts about this machine, to paste");
  verb.group(kMachineGroup);
  EnvArguments& arguments = run_when_parsed(verb, status, print_env);
  arguments.machine.version = app.version();
  verb.add_option("--master", arguments.machine.master,
                  "the host whose route is told; default $MASTER_ADDR, or this machine")
      ->type_name("HOST");
  verb.add_option_function<std::string>(
          "--output", [&arguments](const std::string& form) { arguments.is_json = form == "json"; },
          "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "It tells no secrets and no names of users or files, but the path of lockstep-runtime, and "
      "of\n"
      "the kubeconfig the current context and its server.");
}

}  // namespace lockstep::cli
