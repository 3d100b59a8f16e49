// Ranks of faulty_runtime.cc that need not load it: its Note [Forks].
#pragma once

#include <map>
#include <mutex>
#include <string>

#include <sys/types.h>

namespace lockstep::faults {

// One process of faulty-runtime that forks ranks. Ends them not.
class RankForks {
 public:
  // Makes this process the subreaper of ranks. Throws std::system_error.
  RankForks();
  ~RankForks();
  RankForks(const RankForks&) = delete;
  RankForks& operator=(const RankForks&) = delete;

  // Starts a rank; returns its pid, a child of this process. Of any thread.
  pid_t launch(const std::map<std::string, std::string>& env, const std::string& log);

 private:
  std::mutex mutex_;  // of one request and its answer
  pid_t server_ = 0;
  int requests_ = -1;
  int answers_ = -1;
};

}  // namespace lockstep::faults
