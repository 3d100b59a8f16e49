#include "operator/kube/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
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

// A descriptor that a stop makes readable.
class EventDescriptor {
 public:
  EventDescriptor() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  ~EventDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  EventDescriptor(const EventDescriptor&) = delete;
  EventDescriptor& operator=(const EventDescriptor&) = delete;

  int fd() const { return fd_; }
  void set() const { eventfd_write(fd_, 1); }

 private:
  const int fd_;
};

// How long a program may still run.
struct Patience {
  Clock::time_point deadline;
  int stop_fd = -1;  // EventDescriptor

  // Waits for one of `entries`, the last of which it fills in; false at the deadline, at the stop,
  // or if waiting fails.
  template <std::size_t N>
  bool wait(std::array<pollfd, N>& entries) const {
    entries.back() = {stop_fd, POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = poll(entries.data(), entries.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    return entries.back().revents == 0;
  }
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

// Reads both until both have ended; false if patience ends before, or if too much is said.
bool read_all(const Pipe& out, const Pipe& err, const Patience& patience, SubprocessEnd& end) {
  std::array<pollfd, 3> open{{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}, {}}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    open[0].revents = open[1].revents = 0;
    if (!patience.wait(open)) return false;
    if (open[0].revents != 0 && !read_some(open[0].fd, end.output, kMaxOutput)) open[0].fd = -1;
    if (open[1].revents != 0 && !read_some(open[1].fd, end.errors, kMaxErrors)) open[1].fd = -1;
    if (end.output.size() > kMaxOutput || end.errors.size() > kMaxErrors) return false;
  }
  return true;
}

// Waits until the process has ended, without reaping it; false if patience ends before.
bool await_end(pid_t pid, const Patience& patience) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return false;
  std::array<pollfd, 2> ended{{{process, POLLIN, 0}, {}}};
  while (ended[0].revents == 0 && patience.wait(ended)) continue;
  close(process);
  return ended[0].revents != 0;
}

}  // namespace

Result<SubprocessEnd> run_subprocess(const Subprocess& program, const std::stop_token& stop) {
  Pipe out;
  Pipe err;
  pid_t pid = -1;
  const EventDescriptor stopped;
  const bool has_descriptors = out.read_end() >= 0 && err.read_end() >= 0 && stopped.fd() >= 0;
  const int error = has_descriptors ? spawn(program, out, err, pid) : EMFILE;
  if (error != 0) {
    return Error{ErrorCode::kNotFound, std::string("cannot be started: ") + std::strerror(error),
                 ""};
  }
  out.close_end(1);
  err.close_end(1);
  SubprocessEnd end;
  const std::stop_callback signal(stop, [&stopped] { stopped.set(); });
  const Patience patience{.deadline = Clock::now() + program.timeout, .stop_fd = stopped.fd()};
  const bool in_time = read_all(out, err, patience, end) && await_end(pid, patience);
  // What it has left behind, too.
  kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (end.output.size() > kMaxOutput || end.errors.size() > kMaxErrors) {
    end.how = "said too much";
  } else if (!in_time && stop.stop_requested()) {
    end.how = "was stopped";
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
