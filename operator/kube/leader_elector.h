// Carries out an Election on the API server, from a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "operator/kube/client.h"
#include "operator/kube/election.h"
#include "operator/kube/mutex.h"
#include "operator/kube/write_fence.h"

namespace lockstep::kube {

struct ElectorObserver {
  // Another holder than before was seen, or this process became one. Called from the elector's
  // thread; may be empty.
  std::function<void(const std::string& holder)> on_holder;
  std::function<void()> on_slow_path;  // a renewal that had to read the Lease first
  std::function<void(const std::string& message)> on_trouble;
};

class LeaderElector {
 public:
  struct Options {
    ElectionSettings settings;  // that check_settings() takes
    std::string ns, name;       // of the Lease
    ElectorObserver observer;
  };
  enum class State { kWaiting, kLeading, kLost };

  // Contends from now on. `client` is used by nobody else, so that a renewal never waits for other
  // calls, answers within half the renew deadline, and outlives this.
  LeaderElector(Client& client, Options options);
  // Ends without handing the Lease on; waits for the call in flight.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // Becomes readable when the state changes to kLeading or kLost, and stays so until taken.
  int news_fd() const { return news_fd_; }
  void take_news();
  State state() const;
  std::string why_lost() const;
  // The Lease's uid; empty until it was seen.
  std::string lease_uid() const;

  // Closed by this process's own clock when its last renewal is too old. Outlives nothing: ask only
  // while the elector lives.
  const WriteFence& fence() const { return fence_; }

  // Ends contending and hands the Lease on, if this process has it; the next leader need not wait
  // for its end. Only for when nothing of this process can write any more. False if the server did
  // not take it.
  bool release();

  // How long the server has not answered about the Lease; nothing: it never has.
  std::optional<std::chrono::seconds> since_answer() const;
  // How long the thread has been at the same step.
  std::chrono::seconds since_turn() const;

 private:
  void run(const std::stop_token& stop);
  void carry_out(const Election::Read& read);
  void carry_out(const Election::Write& write);
  ApiResult<nlohmann::json> send(const Election::Write& write);
  void publish();
  void lose(const std::string& why);
  void announce(State state);
  void rest_until(BootClock::time_point until, const std::stop_token& stop);
  void note_answer();

  Client& client_;
  const Options options_;
  const ResourcePath path_;
  const int news_fd_;
  WriteFence fence_;
  Election election_;  // the thread's; after its end the caller's
  mutable Mutex mutex_;
  std::condition_variable_any stopped_;
  State state_ GUARDED_BY(mutex_) = State::kWaiting;
  std::string why_lost_ GUARDED_BY(mutex_);
  std::string holder_ GUARDED_BY(mutex_);
  std::string lease_uid_ GUARDED_BY(mutex_);
  std::optional<BootClock::time_point> answered_at_ GUARDED_BY(mutex_);
  BootClock::time_point turned_at_ GUARDED_BY(mutex_) = BootClock::now();
  std::jthread thread_;  // last: it uses all of the above
};

// "HOST_RANDOM", as client-go's users name themselves: two processes of one host differ.
std::string make_identity(const std::string& host);

}  // namespace lockstep::kube
