#include "operator/kube/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = 1024 * 1024;
constexpr std::size_t kMaxErrors = 64 * 1024;

// The two ends of a pipe, closed with it.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(more.begin(), more.end(),
                                      [&name](const auto& one) { return one.first == name; });
    if (!replaced) out.push_back(text);
  }
  for (const auto& [name, value] : more) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In a process group of its own, with no signal blocked or ignored; 0 or an errno.
int spawn(const Subprocess& program, const Pipe& out, const Pipe& err, pid_t& pid) {
  std::vector<std::string> argv = program.argv;
  std::vector<std::string> env = environment_with(program.env);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.write_end(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.write_end(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t pipe_only;
  sigemptyset(&none);
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe_only);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&pid, argv.front().c_str(), &files, &attributes,
                                 pointers_to(argv).data(), pointers_to(env).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Appends what is there; false at the end, or if `text` grows over `limit`.
bool read_some(int fd, std::string& text, std::size_t limit) {
  std::array<char, 4096> buffer{};
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 && text.size() <= limit;
}

// Reads both until both have ended; false at the deadline, or if too much is said.
bool read_all(const Pipe& out, const Pipe& err, Clock::time_point deadline, SubprocessEnd& end) {
  std::array<pollfd, 2> open{{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = poll(open.data(), open.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (open[0].revents != 0 && !read_some(open[0].fd, end.output, kMaxOutput)) open[0].fd = -1;
    if (open[1].revents != 0 && !read_some(open[1].fd, end.errors, kMaxErrors)) open[1].fd = -1;
    if (end.output.size() > kMaxOutput || end.errors.size() > kMaxErrors) return false;
  }
  return true;
}

// Waits until the process has ended, without reaping it; false at the deadline.
bool await_end(pid_t pid, Clock::time_point deadline) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return false;
  bool ended = false;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    pollfd entry{process, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(left));
    ended = ready > 0;
    if (ended || (ready < 0 && errno != EINTR)) break;
  }
  close(process);
  return ended;
}

}  // namespace

Result<SubprocessEnd> run_subprocess(const Subprocess& program) {
  Pipe out;
  Pipe err;
  pid_t pid = -1;
  const int error =
      out.read_end() < 0 || err.read_end() < 0 ? EMFILE : spawn(program, out, err, pid);
  if (error != 0) {
    return Error{ErrorCode::kNotFound, std::string("cannot be started: ") + std::strerror(error),
                 ""};
  }
  out.close_end(1);
  err.close_end(1);
  SubprocessEnd end;
  const Clock::time_point deadline = Clock::now() + program.timeout;
  const bool in_time = read_all(out, err, deadline, end) && await_end(pid, deadline);
  // What it has left behind, too.
  kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (end.output.size() > kMaxOutput || end.errors.size() > kMaxErrors) {
    end.how = "said too much";
  } else if (!in_time) {
    end.how = "did not end within " + std::to_string(program.timeout.count()) + " s";
  } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    end.how = "exited with " + std::to_string(WEXITSTATUS(status));
  } else if (WIFSIGNALED(status)) {
    end.how = "was ended by signal " + std::to_string(WTERMSIG(status));
  }
  return end;
}

}  // namespace lockstep::kube
