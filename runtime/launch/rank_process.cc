#include "runtime/launch/rank_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/common/exec_strings.h"

namespace lockstep::launch {
namespace {

using common::Error;
using common::ErrorCode;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

std::optional<Pipe> open_pipe() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{ends[0], ends[1]};
}

// Between fork and exec: only async-signal-safe calls. Reports a failure as errno through `report`.
[[noreturn]] void become(char* const* argv, char* const* env, int output, int report,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // it died before it could be watched
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvpe(argv[0], argv, env);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

common::Result<RankProcess> start_rank(const std::vector<std::string>& command,
                                       const std::map<std::string, std::string>& env) {
  const std::vector<std::string> environment = common::merged_environment(env);
  const std::vector<char*> argv = common::exec_pointers(command);
  const std::vector<char*> envp = common::exec_pointers(environment);
  const std::optional<Pipe> output = open_pipe();
  const std::optional<Pipe> report = output ? open_pipe() : std::nullopt;
  if (!report) {
    if (output) close(output->read_end), close(output->write_end);
    return Error{ErrorCode::kUnavailable, std::string("pipe: ") + std::strerror(errno), ""};
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(argv.data(), envp.data(), output->write_end, report->write_end, parent);
  const int fork_error = errno;
  close(output->write_end);
  close(report->write_end);
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0 && read(report->read_end, &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
  }
  close(report->read_end);
  if (error == 0) {
    fcntl(output->read_end, F_SETFL, O_NONBLOCK);
    return RankProcess{pid, output->read_end};
  }
  close(output->read_end);
  const bool is_missing = error == ENOENT || error == EACCES || error == ENOEXEC;
  return Error{pid > 0 && is_missing ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               "cannot start " + command[0] + ": " + std::strerror(error),
               pid > 0 && is_missing ? "the image must hold the program" : ""};
}

std::optional<EndedProcess> reap_one(const std::function<bool(pid_t)>& is_rank) {
  siginfo_t info{};
  // WNOWAIT: until it is reaped, nobody else can get its number, which is its group's too.
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  const pid_t pid = info.si_pid;
  if (is_rank(pid)) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  return EndedProcess{pid, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
}

}  // namespace lockstep::launch
