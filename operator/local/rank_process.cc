#include "operator/local/rank_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/common/exec_strings.h"

namespace lockstep::local {

namespace {

using common::Error;
using common::ErrorCode;

// Between fork and exec: only async-signal-safe calls. Reports a failure as errno through `report`.
[[noreturn]] void become(char* const* argv, char* const* env, int log, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  execvpe(argv[0], argv, env);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

common::Result<pid_t> start_rank(const RankCommand& command) {
  const int log = open(command.log_file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) {
    return Error{ErrorCode::kPermissionDenied,
                 "cannot write " + command.log_file + ": " + std::strerror(errno),
                 "choose another --output"};
  }
  const std::vector<std::string> environment = common::merged_environment(command.env);
  const std::vector<char*> argv = common::exec_pointers(command.argv);
  const std::vector<char*> env = common::exec_pointers(environment);
  int report[2] = {-1, -1};
  if (pipe2(report, O_CLOEXEC) != 0) {
    close(log);
    return Error{ErrorCode::kUnavailable, std::string("pipe: ") + std::strerror(errno), ""};
  }
  const pid_t pid = fork();
  if (pid == 0) become(argv.data(), env.data(), log, report[1]);
  const int fork_error = errno;
  close(log);
  close(report[1]);
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0 && read(report[0], &error, sizeof error) == sizeof error) waitpid(pid, nullptr, 0);
  close(report[0]);
  if (error == 0) return pid;
  return Error{ErrorCode::kNotFound,
               "cannot start " + command.argv[0] + ": " + std::strerror(error),
               "build it with `make build`, or put it beside `lockstep`"};
}

std::optional<int> reap_rank(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace lockstep::local
