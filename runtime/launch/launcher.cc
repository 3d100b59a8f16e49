#include "runtime/launch/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/common/exit_code.h"
#include "runtime/common/http_server.h"
#include "runtime/common/log.h"
#include "runtime/launch/log_lines.h"
#include "runtime/launch/pages.h"
#include "runtime/launch/rank_process.h"

namespace lockstep::launch {
namespace {

using common::ExitCode;
using common::TerminationMessage;
using common::WorkerEnv;

// What is passed on to the ranks. All of them may mean: stop.
constexpr std::array<int, 6> kPassedOn = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

// Of 64 KiB each, more than a pipe holds.
constexpr int kMaxLastReads = 17;

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : kPassedOn) sigaddset(&set, number);
  return set;
}

bool asks_to_stop(int number) {
  return number == SIGTERM || number == SIGINT || number == SIGQUIT;
}

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The last line of `text` that is not blank, whole: a rank's words may take 2 KiB.
std::string last_line(const std::string& text) {
  constexpr const char* kBlank = " \r\n\t";
  const std::size_t last = text.find_last_not_of(kBlank);
  if (last == std::string::npos) return "";
  const std::size_t before = text.rfind('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return text.substr(first, last + 1 - first);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads the log any more; the ranks go on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A folder for what ranks tell us, in memory and gone with us.
class RunFolder {
 public:
  RunFolder() {
    std::string path = "/dev/shm/lockstep-launch-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~RunFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made
  std::string message_file(int rank) const {
    return path_ + "/rank-" + std::to_string(rank) + ".end";
  }

 private:
  std::string path_;
};

class Launcher {
 public:
  Launcher(const WorkerEnv& env, std::chrono::milliseconds end_patience)
      : env_(env), log_({{"launcher", env.rank}, {"attempt", env.attempt}}) {
    gang_.end_patience = end_patience;
    gang_.grace = stop_time(std::chrono::seconds(env.grace_seconds));
    gang_.ends.resize(static_cast<std::size_t>(env.ranks_per_pod));
    const sigset_t set = awaited_signals();
    signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Launcher() {
    for (const Rank& rank : ranks_) {
      if (rank.process.output >= 0) close(rank.process.output);
    }
    if (signal_fd_ >= 0) close(signal_fd_);
    // CivetWeb takes two seconds to stop, in which the pod would still count as running.
    static_cast<void>(server_.release());
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int run(const std::vector<std::string>& command) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (folder_.path().empty() || signal_fd_ < 0) {
      return refuse(ExitCode::kInternal, "cannot write to /dev/shm", "mount an emptyDir there");
    }
    if (const std::optional<int> refused = serve()) return *refused;
    if (const std::optional<int> refused = start(command)) return *refused;
    while (true) {
      const Decision next = decide(gang_, Clock::now());
      if (next.move == Move::kExit) return finish(next.cause);
      if (next.move == Move::kEndOthers) {
        end_others(*next.cause);
        continue;
      }
      if (next.move == Move::kKillOthers) send_to_running(SIGKILL);
      wait(next.wake);
    }
  }

 private:
  struct Rank {
    RankProcess process;
    LogLines lines;
  };

  int number_of(std::size_t local_rank) const { return env_.rank + static_cast<int>(local_rank); }

  // Ends before any rank runs.
  int refuse(ExitCode code, const std::string& message, const std::string& hint) {
    tell({.rank = env_.rank,
          .step = 0,
          .reason = std::string(common::reason_of(code)),
          .message = message,
          .hint = hint},
         static_cast<int>(code));
    return static_cast<int>(code);
  }

  std::optional<int> serve() {
    const bool is_everywhere = env_.listen_address == "0.0.0.0";
    const PodRanks ranks = {.first_rank = env_.rank,
                            .num_ranks = env_.ranks_per_pod,
                            .host = is_everywhere ? "127.0.0.1" : env_.listen_address,
                            .folder = folder_.path()};
    auto server = common::HttpServer::start({.address = env_.listen_address,
                                             .port = env_.metrics_port,
                                             .routes = pod_routes(ranks),
                                             .num_threads = 4});
    if (!server) {
      const bool taken = server.error().code == common::ErrorCode::kAlreadyExists;
      return refuse(taken ? ExitCode::kPortInUse : ExitCode::kInvalidConfig, server.error().message,
                    server.error().hint);
    }
    server_ = std::move(server).value();
    log_.info("serving", {{"port", server_->port()}, {"ranks", env_.ranks_per_pod}});
    return std::nullopt;
  }

  std::optional<int> start(const std::vector<std::string>& command) {
    for (std::size_t i = 0; i < gang_.ends.size(); ++i) {
      const int number = number_of(i);
      auto process = start_rank(
          command, {{"RANK", std::to_string(number)},
                    {"LOCAL_RANK", std::to_string(env_.local_rank + static_cast<int>(i))},
                    {"LOCAL_WORLD_SIZE", std::to_string(env_.local_world_size)},
                    {"LOCKSTEP_RANKS_PER_POD", "1"},
                    {"LOCKSTEP_METRICS_PORT", "0"},
                    {"LOCKSTEP_METRICS_PORT_FILE", port_file(folder_.path(), number)},
                    {"LOCKSTEP_TERMINATION_MESSAGE", folder_.message_file(number)}});
      if (!process) {
        send_to_running(SIGKILL);
        const bool is_missing = process.error().code == common::ErrorCode::kNotFound;
        return refuse(is_missing ? ExitCode::kInvalidConfig : ExitCode::kInternal,
                      process.error().message, process.error().hint);
      }
      ranks_.push_back({process.value(), LogLines("[rank " + std::to_string(number) + "] ")});
    }
    return std::nullopt;
  }

  void send_to_running(int signal_number) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (gang_.ends[i]) continue;
      const pid_t pid = ranks_[i].process.pid;
      kill(signal_number == SIGKILL ? -pid : pid, signal_number);
    }
  }

  void end_others(std::size_t cause) {
    log_.warning("ending the other ranks", {{"because_of_rank", number_of(cause)}});
    gang_.ending_since = Clock::now();
    send_to_running(SIGTERM);
  }

  // Until a signal comes, a rank writes, or it is time for the next decision.
  void wait(const std::optional<Clock::time_point>& wake) {
    std::vector<pollfd> watched = {{signal_fd_, POLLIN, 0}};
    watched.reserve(ranks_.size() + 1);
    for (const Rank& rank : ranks_) watched.push_back({rank.process.output, POLLIN, 0});
    int timeout = -1;
    if (wake) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now());
      timeout = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    if (poll(watched.data(), watched.size(), timeout) <= 0) return;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (watched[i + 1].revents != 0) pass_output_on(ranks_[i]);
    }
    if (watched[0].revents != 0) take_signals();
  }

  // One read at a time, so that a rank that never stops writing does not keep us from the others.
  bool pass_output_on(Rank& rank) {
    std::array<char, std::size_t{64} << 10> buffer{};
    const ssize_t size = read(rank.process.output, buffer.data(), buffer.size());
    if (size > 0) {
      write_all(STDOUT_FILENO, rank.lines.add({buffer.data(), static_cast<std::size_t>(size)}));
      return true;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(rank.process.output);
      rank.process.output = -1;  // poll() leaves it out
    }
    return false;
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      log_.info("signal", {{"number", number}});
      if (asks_to_stop(number) && !gang_.stop_asked) gang_.stop_asked = Clock::now();
      send_to_running(number);
    }
    const auto is_rank = [this](pid_t pid) {
      return std::any_of(ranks_.begin(), ranks_.end(),
                         [pid](const Rank& rank) { return rank.process.pid == pid; });
    };
    while (const std::optional<EndedProcess> ended = reap_one(is_rank)) record(*ended);
  }

  void record(const EndedProcess& ended) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (rank.process.pid != ended.pid || gang_.ends[i]) continue;
      // What it wrote before its end; a process that it left behind may write on for ever.
      for (int reads = 0; reads < kMaxLastReads && rank.process.output >= 0; ++reads) {
        if (!pass_output_on(rank)) break;
      }
      write_all(STDOUT_FILENO, rank.lines.finish());
      gang_.ends[i] = RankEnd{.exit_code = ended.exit_code,
                              .at = Clock::now(),
                              .told = common::decode_termination_message(
                                  last_line(read_text(folder_.message_file(number_of(i))))),
                              .is_forced = gang_.ending_since.has_value()};
      log_.info("rank ended", {{"rank", number_of(i)}, {"exit_code", ended.exit_code}});
    }
  }

  int finish(const std::optional<std::size_t>& cause) {
    if (!cause) return static_cast<int>(ExitCode::kSucceeded);
    const RankEnd& end = *gang_.ends[*cause];
    const std::string& line = ranks_[*cause].lines.last_line();
    tell(last_words(end, number_of(*cause), line), end.exit_code);
    return end.exit_code;
  }

  // Our own last words: what became of the pod.
  void tell(const TerminationMessage& message, int exit_code) {
    log_.info("exit", {{"exit_code", exit_code},
                       {"rank", message.rank},
                       {"step", message.step},
                       {"reason", message.reason},
                       {"message", message.message},
                       {"hint", message.hint}});
    const std::filesystem::path path(env_.termination_path);
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    std::error_code ignored;
    if (path.empty() || !std::filesystem::is_directory(folder, ignored)) return;
    std::ofstream file(path, std::ios::trunc);
    file << encode(message) << "\n";
    file.close();
    if (!file) log_.warning("termination message not written", {{"path", path.string()}});
  }

  const WorkerEnv env_;
  const common::Log log_;
  const RunFolder folder_;
  int signal_fd_ = -1;
  Gang gang_;
  std::vector<Rank> ranks_;  // by local rank; all that were started
  std::unique_ptr<common::HttpServer> server_;
};

}  // namespace

void block_signals() {
  const sigset_t set = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int launch(const std::vector<std::string>& command, const WorkerEnv& env,
           std::chrono::milliseconds end_patience) {
  return Launcher(env, end_patience).run(command);
}

}  // namespace lockstep::launch
