// Ranks of a job as real processes of lockstep-runtime, for tests.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "runtime/common/exit_code.h"
#include "runtime/common/loopback_port.h"

namespace lockstep::support {

// A folder of its own below the system's temporary folder; removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_text(const std::string& path, const std::string& text);
// The file's bytes; empty if it cannot be read.
std::string read_text(const std::string& path);

struct GangOptions {
  std::string runtime;  // path of lockstep-runtime
  nlohmann::json job;   // {"name", "ranks", "train"}
  std::string folder;   // for job file, logs and termination messages
  std::string output;   // LOCKSTEP_OUTPUT
  int num_ranks = 1;    // processes; WORLD_SIZE
  int attempt = 0;
  std::map<std::string, std::string> env;  // laid over the environment of every rank
  std::map<int, std::map<std::string, std::string>> rank_env;  // laid over that, by rank
  // Starts a rank with this environment and log instead of a new process of `runtime`; returns its
  // pid, a child of this process.
  std::function<pid_t(const std::map<std::string, std::string>& env, const std::string& log)>
      launch = nullptr;
};

// All ranks of one attempt. The destructor kills and reaps what still runs.
class Gang {
 public:
  explicit Gang(const GangOptions& options);
  ~Gang();
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;

  // 0 if the rank has ended and was waited for.
  pid_t pid(int rank) const { return pids_.at(static_cast<std::size_t>(rank)); }
  void send(int rank, int signal_number);
  // Waits for all ranks. Returns their exit codes; minus the signal's number for killed ranks.
  std::vector<int> wait();
  // Waits until `condition` holds; false if all ranks ended before.
  bool wait_until(const std::function<bool()>& condition);
  // Whether the rank was seen to have ended, by wait_until() or wait().
  bool has_ended(int rank) const { return pids_.at(static_cast<std::size_t>(rank)) == 0; }

  std::string log(int rank) const;
  std::optional<common::TerminationMessage> last_words(int rank) const;

 private:
  std::string file(int rank, const std::string& kind) const;
  pid_t spawn(int rank, const std::map<std::string, std::string>& env);
  bool reap_finished();

  common::LoopbackPort port_;  // where the ranks meet
  std::string prefix_;
  std::vector<pid_t> pids_;  // 0 = reaped
  std::vector<int> exit_codes_;
};

}  // namespace lockstep::support
