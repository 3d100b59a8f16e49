// Who leads among several processes, decided by a Lease: the rules of client-go, with the time
// passed in.
// Source: kubernetes/client-go tools/leaderelection/leaderelection.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <variant>

#include "operator/kube/boot_clock.h"
#include "operator/kube/lease.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct ElectionSettings {
  std::string identity;  // of this process, different from every other's
  // Others wait this long after they last saw the Lease change before they take it.
  std::chrono::milliseconds lease_duration{15'000};
  // A leader whose last renewal is this old leads no more.
  std::chrono::milliseconds renew_deadline{10'000};
  std::chrono::milliseconds retry_period{2'000};  // between two tries
  double jitter = 1.2;  // who waits for the Lease waits up to this part of retry_period longer
};

// kInvalidArgument unless lease duration > renew deadline > 1.2 * retry period > 0, and the lease
// duration is of whole seconds, as a Lease holds them.
common::Result<void> check_settings(const ElectionSettings& settings);

// Note [When a leader may write]
// A follower takes the Lease `duration` after it saw it change, by its own clock. It saw the change
// after the server made it, and the server made it after the leader had sent it. So from the moment
// of sending on, nobody else leads for `duration`, whatever any clock shows. The leader stops
// writing `renew_deadline` after that moment, which is earlier: the difference is what clocks may
// differ in speed (15 s to 10 s: by a half), and what a write may take on its way.

// What a process knows of the Lease, and what follows for it.
struct ElectionState {
  using Time = BootClock::time_point;
  std::optional<Lease> known;  // as last seen
  Time changed_at{};           // when known's record was first seen
  bool exists = false;         // `known` is of an object that is there
  bool is_fresh = false;       // `known` is good to write on
  bool is_from_read = false;   // `known` comes from a read, not from a write of our own
  Time rest_until{};
  bool leads = false;  // was elected; may have lost since
  Time leads_until{};  // see Note [When a leader may write]
  std::string lost_why;
};

// For one thread.
class Election {
 public:
  using Time = ElectionState::Time;

  // What to do next.
  struct Read {};
  struct Write {
    LeaseRecord record;
    std::string version;  // to be replaced; empty: there is no Lease, create it
  };
  struct Rest {
    Time until;
  };
  struct Lost {  // this process led and does not any more: it ends
    std::string why;
  };
  using Step = std::variant<Read, Write, Rest, Lost>;

  explicit Election(ElectionSettings settings);

  // `wall_time` goes into the record of a Write.
  Step next(Time now, const std::string& wall_time) const;

  // The Lease as a read that ended at `now` found it; nothing: there is none.
  void on_read(const std::optional<Lease>& found, Time now);
  void on_read_failed(Time now);
  // The server took `write`, which was sent at `sent`; `now`: its answer is here.
  void on_written(const Write& write, const Lease& written, Time sent, Time now);
  // Refused, or without an answer: whether the server took it is unknown then.
  void on_write_failed(Time now);

  bool is_leader(Time now) const {
    return state_.leads && state_.lost_why.empty() && now < state_.leads_until;
  }
  const ElectionState& state() const { return state_; }

  // The write that hands the Lease on; nothing if this process does not lead. It is for when all
  // work has ended.
  std::optional<Write> release(Time now, const std::string& wall_time) const;

 private:
  // Somebody else has the Lease, as far as can be told at `now`.
  bool is_taken(Time now) const;
  void rest(Time now);

  ElectionSettings settings_;
  std::minstd_rand random_;
  ElectionState state_;
};

}  // namespace lockstep::kube
