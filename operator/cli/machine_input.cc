#include "operator/cli/machine_input.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "operator/cli/runtime_program.h"
#include "operator/kube/client_config.h"
#include "operator/kube/subprocess.h"
#include "operator/machine/read_facts.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kPatience{30};  // a first start reads 200 MB of libraries

machine::ProgramFacts ask_runtime() {
  const std::string path = find_runtime();
  const common::Result<kube::SubprocessEnd> end =
      kube::run_subprocess({.argv = {path, "--version"}, .env = {}, .timeout = kPatience});
  machine::ProgramFacts program;
  program.path = path;
  if (!end) {
    program.trouble = "cannot be started";
  } else if (!end->how.empty()) {
    program.trouble = end->how + (end->errors.empty() ? "" : ": " + kube::trim(end->errors));
  } else {
    return parse_program(path, end->output);
  }
  return program;
}

void add_named_port(const char* variable, std::vector<machine::PortFacts>& ports) {
  const std::optional<std::string> text = kube::read_env(variable);
  int port = 0;
  if (!text) return;
  std::from_chars(text->data(), text->data() + text->size(), port);
  if (port > 0 && port < 65536) ports.push_back({.port = port, .why = variable});
}

std::string env_or(const char* variable, const std::string& otherwise) {
  const std::optional<std::string> value = kube::read_env(variable);
  return value && !value->empty() ? *value : otherwise;
}

}  // namespace

machine::ProgramFacts parse_program(const std::string& path, const std::string& told) {
  machine::ProgramFacts program;
  program.path = path;
  program.told = kube::trim(told);
  constexpr std::string_view kName = "lockstep-runtime ";
  if (!program.told.starts_with(kName)) {
    program.trouble = "is no lockstep-runtime: its --version says '" + program.told + "'";
    return program;
  }
  program.version = program.told.substr(kName.size());
  program.version.erase(std::min(program.version.size(), program.version.find_first_of(" ,")));
  return program;
}

machine::MachineFacts facts_of_machine(const MachineArguments& arguments) {
  machine::Asked asked;
  asked.master = arguments.master.empty() ? env_or("MASTER_ADDR", asked.master) : arguments.master;
  asked.shared_memory = env_or("LOCKSTEP_SHM_DIR", asked.shared_memory);
  asked.output = arguments.output;
  add_named_port("MASTER_PORT", asked.ports);
  add_named_port("LOCKSTEP_METRICS_PORT", asked.ports);
  for (const int port : arguments.ports) asked.ports.push_back({.port = port, .why = "--port"});
  machine::MachineFacts facts = machine::read_facts(asked);
  facts.lockstep_version = arguments.version;
  facts.runtime = ask_runtime();
  return facts;
}

}  // namespace lockstep::cli
