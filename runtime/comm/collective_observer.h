// For who measures a rank: when collectives run, and when somebody waits for one.
#pragma once

#include <chrono>
#include <string_view>

namespace lockstep::runtime {

// One operation's life on its rank.
struct CollectiveSpan {
  using Clock = std::chrono::steady_clock;
  std::string_view what;  // as issued, cut as in Standing; valid during the call
  int queue = 0;          // whose turn it was: 0 of the world, others of groups of ranks
  Clock::time_point issued;
  Clock::time_point began;  // its turn on the thread of its queue
  Clock::time_point ended;
};

class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;

  // Around a Pending::wait() that has to block, on the thread that waits.
  virtual void wait_begins(std::string_view what) = 0;
  virtual void wait_ended() = 0;

  // After each operation, failed ones included, before its waiters go on; on the queue's thread.
  virtual void carried_out(const CollectiveSpan& span) = 0;
};

}  // namespace lockstep::runtime
