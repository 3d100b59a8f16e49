#include "runtime/train/local_ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"
#include "runtime/common/exit_code.h"
#include "runtime/common/loopback_port.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using Clock = std::chrono::steady_clock;

// What the others get to end by themselves once one has failed: what they say may be the cause.
constexpr std::chrono::seconds kCauseDelay{10};

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The signals that the parent waits for.
sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
  return signals;
}

// A rank's life. Its last words go into `report`; the collective is never destroyed, for that would
// wait for peers that are gone.
[[noreturn]] void live(int rank, int port, int report, const LocalRanksOptions& options,
                       const std::function<void(Collective&)>& body) {
  std::unique_ptr<Collective> collective;
  ExitCode code = ExitCode::kSucceeded;
  try {
    collective = connect({.rank = rank,
                          .world_size = options.num_ranks,
                          .master_addr = "127.0.0.1",
                          .master_port = port,
                          .backend = options.backend,
                          .timeout = options.timeout,
                          .shm_folder = options.shm_folder,
                          .network_interface = options.network_interface});
    body(*collective);
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    code = failure.code;
    const std::string words =
        common::encode(common::TerminationMessage{.rank = rank,
                                                  .step = 0,
                                                  .reason = std::string(reason_of(code)),
                                                  .message = failure.message,
                                                  .hint = failure.hint});
    [[maybe_unused]] const ssize_t told = write(report, words.data(), words.size());
  }
  std::cout.flush();
  _exit(static_cast<int>(code));
}

struct Rank {
  pid_t pid = 0;    // 0: it has ended
  int report = -1;  // its last words, at most 2 KiB: they fit into the pipe
};

struct End {
  int rank = 0;
  int exit_code = 0;
  std::optional<common::TerminationMessage> told{};
};

bool has_own_failure(const End& end) {
  return end.exit_code != static_cast<int>(ExitCode::kPeerLost);
}

class LocalRanks {
 public:
  LocalRanks(const LocalRanksOptions& options, const std::function<void(Collective&)>& body) {
    ranks_.reserve(static_cast<size_t>(options.num_ranks));
    for (int rank = 0; rank < options.num_ranks; ++rank) {
      int report[2] = {-1, -1};
      if (pipe2(report, O_CLOEXEC) != 0) throw_errno("pipe");
      const pid_t parent = getpid();
      const pid_t pid = fork();
      if (pid < 0) throw_errno("cannot start rank " + std::to_string(rank));
      if (pid == 0) {
        setpgid(0, 0);  // Ctrl-C is the parent's
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(static_cast<int>(ExitCode::kPeerLost));
        const sigset_t signals = awaited_signals();
        sigprocmask(SIG_UNBLOCK, &signals, nullptr);
        live(rank, port_.number(), report[1], options, body);
      }
      close(report[1]);
      ranks_.push_back({.pid = pid, .report = report[0]});
    }
  }
  ~LocalRanks() {
    kill_all();
    for (Rank& rank : ranks_) {
      if (rank.pid != 0) waitpid(rank.pid, nullptr, 0);
      close(rank.report);
    }
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  bool any_left() const {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.pid != 0; });
  }
  void kill_all() const {
    for (const Rank& rank : ranks_) {
      if (rank.pid != 0) kill(rank.pid, SIGKILL);
    }
  }
  // The failures among the ranks that have ended since the last call.
  std::vector<End> reap() {
    std::vector<End> failures;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      int status = 0;
      if (ranks_[i].pid == 0 || waitpid(ranks_[i].pid, &status, WNOHANG) == 0) continue;
      ranks_[i].pid = 0;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code != 0) failures.push_back({static_cast<int>(i), code, last_words(ranks_[i].report)});
    }
    return failures;
  }

 private:
  static std::optional<common::TerminationMessage> last_words(int report) {
    char text[4096];
    const ssize_t size = read(report, text, sizeof text);
    if (size <= 0) return std::nullopt;
    return common::decode_termination_message({text, static_cast<size_t>(size)});
  }

  const common::LoopbackPort port_;  // where the ranks meet
  std::vector<Rank> ranks_;
};

void tell(const std::string& name, const End& cause) {
  std::cerr << "lockstep-runtime " << name << ": rank " << cause.rank;
  if (!cause.told) {
    const bool by_signal = cause.exit_code > 128;
    std::cerr << (by_signal ? std::string(" was ended by signal ")
                                  .append(std::to_string(cause.exit_code - 128))
                                  .append(" (")
                                  .append(strsignal(cause.exit_code - 128))
                                  .append(")")
                            : " ended with exit code " + std::to_string(cause.exit_code))
              << "\n";
    return;
  }
  std::cerr << ": " << cause.told->reason << ": " << cause.told->message << "\n";
  if (!cause.told->hint.empty()) std::cerr << "hint: " << cause.told->hint << "\n";
}

}  // namespace

int run_local_ranks(const std::string& name, const LocalRanksOptions& options,
                    const std::function<void(Collective&)>& body) {
  const sigset_t signals = awaited_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // who started us may have it ignored: no child would be told of
  LocalRanks ranks(options, body);
  std::optional<End> cause;
  Clock::time_point patience = Clock::time_point::max();
  while (ranks.any_left()) {
    constexpr timespec kLook{.tv_sec = 1, .tv_nsec = 0};
    const int signal = sigtimedwait(&signals, nullptr, &kLook);
    if (signal == SIGINT || signal == SIGTERM) return 128 + signal;
    for (End& end : ranks.reap()) {
      if (!cause) patience = Clock::now() + kCauseDelay;
      if (!cause || (!has_own_failure(*cause) && has_own_failure(end))) cause = std::move(end);
    }
    if (Clock::now() >= patience) break;
  }
  if (!cause) return 0;
  ranks.kill_all();
  tell(name, *cause);
  return cause->exit_code;
}

}  // namespace lockstep::runtime
