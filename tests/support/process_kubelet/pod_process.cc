#include "tests/support/process_kubelet/pod_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::testing {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void run_child(const PodCommand& command) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no pod outlives its kubelet
  const int log = open(command.log_file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  try {
    enter_sandbox(command.sandbox);
    if (chdir(command.working_dir.c_str()) != 0) {
      throw std::system_error(errno, std::generic_category(), "chdir " + command.working_dir);
    }
    const std::vector<char*> environment = pointers(command.environment);
    environ =
        const_cast<char**>(environment.data());  // execvp looks in the pod's PATH, not in ours
    execvp(command.argv[0].c_str(), pointers(command.argv).data());
    throw std::system_error(errno, std::generic_category(), "exec " + command.argv[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process-kubelet: %s\n", error.what());
    std::fflush(stderr);
  }
  _exit(127);
}

}  // namespace

pid_t start_pod_process(const PodCommand& command) {
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) run_child(command);
  return pid;
}

std::optional<int> reap_pod_process(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace lockstep::testing
