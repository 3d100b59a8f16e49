#include "operator/cli/runtime_program.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operator/cli/verb.h"

namespace lockstep::cli {

std::string find_runtime() {
  if (const char* named = std::getenv("LOCKSTEP_RUNTIME"); named != nullptr && *named != '\0')
    return named;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "lockstep-runtime";
  if (!error && std::filesystem::exists(beside)) return beside.string();
  return "lockstep-runtime";
}

int run_runtime(const std::string& runtime, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(runtime.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawnp(&pid, runtime.c_str(), nullptr, nullptr, argv.data(), environ) != 0) {
    std::cerr << "error: cannot start " << runtime << " (build it with `make build`)\n";
    return 127;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void add_runtime_verbs(CLI::App& app, int& status) {
  const struct {
    const char* name;
    const char* what;
    const char* group;
  } verbs[] = {{"tokenize", "make a token file of text or JSON lines, to train on", kPrepareGroup},
               {"generate", "sample text from a trained model", kTrainGroup},
               {"bench", "measure this machine: bench collectives", kMachineGroup}};
  for (const auto& [name, what, group] : verbs) {
    CLI::App* const verb = app.add_subcommand(name, what);
    verb->group(group);
    verb->prefix_command();
    verb->set_help_flag();
    verb->callback([verb, &status] {
      std::vector<std::string> arguments = verb->remaining();
      arguments.insert(arguments.begin(), verb->get_name());
      status = run_runtime(find_runtime(), arguments);
    });
  }
}

}  // namespace lockstep::cli
