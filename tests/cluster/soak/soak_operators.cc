#include "tests/cluster/soak/soak_operators.h"

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::soak {

namespace {

double resident_mb(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmRSS:")) continue;
    double kib = 0;
    std::istringstream(line.substr(6)) >> kib;
    return kib / 1024;
  }
  return 0;
}

}  // namespace

SoakOperators::SoakOperators(Options options) : options_(std::move(options)) {}

SoakOperators::~SoakOperators() {
  for (const MemoryTrack& replica : running_) {
    if (replica.pid <= 0) continue;
    kill(replica.pid, SIGKILL);
    waitpid(replica.pid, nullptr, 0);
  }
}

void SoakOperators::tend() {
  constexpr std::chrono::milliseconds kQuick{500};
  for (int replica = 0; replica < 2; ++replica) {
    const auto index = static_cast<std::size_t>(replica);
    MemoryTrack& track = running_[index];
    if (track.pid > 0 && waitpid(track.pid, nullptr, WNOHANG) == track.pid) {
      track.pid = -1;
      const bool is_quick = std::chrono::steady_clock::now() - started_[index] < kQuick;
      quick_ends_ = is_quick ? quick_ends_ + 1 : 0;
      if (quick_ends_ > 20) throw std::runtime_error("the operator ends at once");
    }
    if (track.pid < 0) start(replica);
    track.resident_mb.push_back(resident_mb(track.pid));
  }
}

void SoakOperators::start(int replica) {
  const auto index = static_cast<std::size_t>(replica);
  const std::string log = options_.folder + "/operator-" + std::to_string(num_starts_++) + ".log";
  std::vector<std::string> words = {options_.program,
                                    "--kubeconfig",
                                    options_.kubeconfig,
                                    "--namespace",
                                    options_.ns,
                                    "--listen",
                                    "127.0.0.1",
                                    "--port",
                                    "0",
                                    "--runtime-image",
                                    "example.invalid/runtime:soak",
                                    "--request-timeout",
                                    "3",
                                    "--watch-timeout",
                                    "5",
                                    "--leader-elect",
                                    "--leader-elect-resource-namespace",
                                    options_.ns,
                                    "--leader-elect-resource-name",
                                    "soak",
                                    "--leader-elect-lease-duration",
                                    "3s",
                                    "--leader-elect-renew-deadline",
                                    "2s",
                                    "--leader-elect-retry-period",
                                    "400ms"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  running_[index] = {.pid = fork(), .resident_mb = {}};
  started_[index] = std::chrono::steady_clock::now();
  if (running_[index].pid < 0) throw std::runtime_error("fork failed");
  if (running_[index].pid > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

void SoakOperators::signal(int replica, int signal) {
  const pid_t pid = running_[static_cast<std::size_t>(replica)].pid;
  if (pid <= 0) throw std::logic_error("no operator was started there");  // -1 means everybody
  kill(pid, signal);
}

std::vector<MemoryTrack> SoakOperators::tracks(std::size_t least) const {
  std::vector<MemoryTrack> all;
  for (const MemoryTrack& track : running_) {
    if (track.pid > 0 && track.resident_mb.size() >= least) all.push_back(track);
  }
  return all;
}

}  // namespace lockstep::soak
