#include "operator/cli/runtime_program.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operator/cli/verb.h"

namespace lockstep::cli {
namespace {

// The signals of the terminal do nothing to this process while this object lives; a child that is
// started with attributes() has them as this process had them before.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigset_t restored;
    sigemptyset(&restored);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &ignore, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaddset(&restored, kSignals[i]);
    }
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigdefault(&attributes_, &restored);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~IgnoredInterrupts() {
    posix_spawnattr_destroy(&attributes_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGQUIT};
  std::array<struct sigaction, 2> before_ = {};
  posix_spawnattr_t attributes_ = {};
};

}  // namespace

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
  std::string name = "lockstep";  // by which its help and errors call it
  std::vector<char*> argv = {name.data()};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // Ctrl-C and Ctrl-\ are for what runs in front, as in system().
  const IgnoredInterrupts ignored;
  pid_t pid = 0;
  if (posix_spawnp(&pid, runtime.c_str(), nullptr, ignored.attributes(), argv.data(), environ) !=
      0) {
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
               {"export", "make a Hugging Face directory of any checkpoint of a run", kTrainGroup},
               {"generate", "sample text from a trained model", kTrainGroup},
               {"chat", "talk with a trained model in the terminal", kTrainGroup},
               {"bench", "measure this machine: bench collectives, gemm or disk", kMachineGroup}};
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
