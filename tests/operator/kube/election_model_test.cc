// Model check of Election: two processes that may be stopped between any two of their steps,
// answers that are late or lost, and writes that arrive after their sender has given them up. Every
// interleaving is followed until no new state comes up.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/election.h"
#include "tests/support/instrumented.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = Election::Time;

constexpr milliseconds kTick{1000};
constexpr int kFar = 3;  // ticks, the lease duration: what is further away is all the same

ElectionSettings settings_of(char name) {
  ElectionSettings settings;
  settings.identity = std::string(1, name);
  settings.lease_duration = seconds(3);
  settings.renew_deadline = seconds(2);
  settings.retry_period = seconds(1);
  settings.jitter = 0;
  return settings;
}

// A call on its way.
struct Call {
  enum class At { kUnderWay, kServed };
  At at = At::kUnderWay;
  std::optional<Election::Write> write;  // nothing: a read
  Time sent{};
  std::optional<Lease> answer;  // of a read: what was found; of a write: nothing = refused
};

struct Process {
  explicit Process(char name) : election(settings_of(name)) {}
  Election election;
  std::optional<Call> call;
  std::optional<Election::Write> given_up;  // on its way though nobody waits for it any more
  Time fence{};                             // writes may go out until then
};

struct World {
  Time now{std::chrono::hours(1)};
  std::optional<Lease> lease;
  int64_t version = 0;
  std::array<Process, 2> processes{Process('a'), Process('b')};
};

// What is wrong with the fence, to see that the check finds it.
enum class Mistake { kNone, kNoDeadline, kLateDeadline };

std::optional<Lease> commit(World& world, const Election::Write& write) {
  const bool fits =
      write.version.empty() ? !world.lease : world.lease && world.lease->version == write.version;
  if (!fits) return std::nullopt;
  world.lease = Lease{write.record, std::to_string(++world.version), ""};
  // Every renewal differs from the one before, as its time does.
  world.lease->record.renew_time = world.lease->version;
  return world.lease;
}

void take_answer(World& world, Process& process, Mistake mistake) {
  const Call call = *process.call;
  process.call.reset();
  if (!call.write) return process.election.on_read(call.answer, world.now);
  if (!call.answer) return process.election.on_write_failed(world.now);
  Election::Write write = *call.write;
  write.record.renew_time = call.answer->record.renew_time;
  process.election.on_written(write, *call.answer, call.sent, world.now);
  if (!process.election.is_leader(world.now)) return;
  process.fence = process.election.state().leads_until;
  if (mistake == Mistake::kNoDeadline) process.fence = world.now + std::chrono::hours(1);
  if (mistake == Mistake::kLateDeadline) process.fence = call.sent + seconds(4);
}

// The next step of a process that has no call under way. False if it rests, or has ended.
bool take_step(World& world, Process& process) {
  const Election::Step step = process.election.next(world.now, "now");
  if (std::holds_alternative<Election::Rest>(step)) return false;
  if (std::holds_alternative<Election::Lost>(step)) {
    if (process.fence <= world.now) return false;
    process.fence = world.now;
    return true;
  }
  process.call = Call{.sent = world.now};
  if (const auto* write = std::get_if<Election::Write>(&step)) process.call->write = *write;
  return true;
}

void add_moves_of(const World& world, std::size_t index, Mistake mistake,
                  std::vector<World>& reached) {
  const Process& process = world.processes.at(index);
  const auto add = [&](const auto& change) {
    World next = world;
    change(next, next.processes.at(index));
    reached.push_back(std::move(next));
  };
  if (process.given_up) {
    add([](World& next, Process& mine) {
      commit(next, *mine.given_up);
      mine.given_up.reset();
    });
  }
  if (!process.call) {
    World next = world;
    if (take_step(next, next.processes.at(index))) reached.push_back(std::move(next));
    return;
  }
  if (process.call->at == Call::At::kUnderWay) {
    add([](World& next, Process& mine) {
      mine.call->at = Call::At::kServed;
      mine.call->answer = mine.call->write ? commit(next, *mine.call->write) : next.lease;
    });
  } else {
    add([mistake](World& next, Process& mine) { take_answer(next, mine, mistake); });
  }
  // No answer. A write that was not served may still arrive; one such at a time is enough.
  const bool is_write_under_way = process.call->write && process.call->at == Call::At::kUnderWay;
  if (is_write_under_way && (world.processes[0].given_up || world.processes[1].given_up)) return;
  add([](World& next, Process& mine) {
    const Call call = *mine.call;
    mine.call.reset();
    if (!call.write) return mine.election.on_read_failed(next.now);
    if (call.at == Call::At::kUnderWay) mine.given_up = call.write;
    mine.election.on_write_failed(next.now);
  });
}

// Everything that decides what can happen next, with times as distances and versions as ranks.
class Fingerprint {
 public:
  explicit Fingerprint(const World& world) : now_(world.now) {
    for (const Process& process : world.processes) {
      note(process.election.state().known);
      if (process.call) note(process.call->answer);
      if (process.call && process.call->write) note(process.call->write->version);
      if (process.given_up) note(process.given_up->version);
    }
    note(world.lease);
    std::sort(versions_.begin(), versions_.end());
    add(world.lease);
    for (const Process& process : world.processes) add(process);
  }
  const std::string& text() const { return text_; }

 private:
  void note(const std::string& version) {
    if (!version.empty()) versions_.push_back(std::stoll(version));
  }
  void note(const std::optional<Lease>& lease) {
    if (lease) note(lease->version);
  }
  void add(char c) { text_ += c; }
  void add(const std::string& version) {
    if (version.empty()) return add('-');
    const auto last = std::unique(versions_.begin(), versions_.end());
    add(static_cast<char>('0' + (std::lower_bound(versions_.begin(), last, std::stoll(version)) -
                                 versions_.begin())));
    versions_.erase(last, versions_.end());
  }
  // A time that is over is over, however long ago.
  void add_deadline(Time time) { add_ticks(time, 0, kFar); }
  void add_past(Time time) { add_ticks(time, -kFar, 0); }
  void add_ticks(Time time, int64_t least, int64_t most) {
    const int64_t ticks = (time - now_) / std::chrono::nanoseconds(kTick);
    add(static_cast<char>('m' + std::clamp(ticks, least, most)));
  }
  void add(const std::optional<Lease>& lease) {
    if (!lease) return add('.');
    add(lease->record.holder.at(0));
    add(lease->version);
  }
  void add(const Election::Write& write) {
    add(write.record.holder.at(0));
    add(write.version);
  }
  void add(const Process& process) {
    const ElectionState& state = process.election.state();
    add_deadline(process.fence);
    if (process.given_up) add(*process.given_up);
    if (!state.lost_why.empty()) return add('L');  // nothing else matters any more
    add(state.known);
    for (const bool flag : {state.exists, state.is_fresh, state.is_from_read, state.leads}) {
      add(flag ? '1' : '0');
    }
    add_past(state.known ? state.changed_at : Time{});
    add_deadline(state.rest_until);
    add_deadline(state.leads_until);
    if (!process.call) return add('n');
    add(process.call->at == Call::At::kServed ? 's' : 'u');
    add_past(process.call->sent);
    add(process.call->answer);
    if (process.call->write) add(*process.call->write);
  }

  const Time now_;
  std::vector<int64_t> versions_;
  std::string text_;
};

struct Verdict {
  std::size_t num_states = 0;
  std::size_t num_led = 0;  // states in which somebody may write
  bool two_may_write = false;
};

Verdict explore(Mistake mistake, std::size_t max_states) {
  Verdict verdict;
  std::unordered_set<std::string> known;
  std::deque<World> open{World()};
  known.insert(Fingerprint(open.front()).text());
  while (!open.empty() && known.size() < max_states) {
    const World world = std::move(open.front());
    open.pop_front();
    const auto may_write =
        std::count_if(world.processes.begin(), world.processes.end(),
                      [&](const Process& process) { return world.now < process.fence; });
    if (may_write > 0) ++verdict.num_led;
    if (may_write > 1) verdict.two_may_write = true;
    if (verdict.two_may_write) break;
    std::vector<World> reached;
    add_moves_of(world, 0, mistake, reached);
    add_moves_of(world, 1, mistake, reached);
    reached.push_back(world);
    reached.back().now += kTick;
    for (World& next : reached) {
      if (known.insert(Fingerprint(next).text()).second) open.push_back(std::move(next));
    }
  }
  verdict.num_states = known.size();
  return verdict;
}

constexpr std::size_t kMaxStates = 3'000'000;
// Without a mistake all states are looked at, which takes an instrumented program minutes.
constexpr std::size_t kMaxSoundStates = kIsInstrumented ? 20'000 : kMaxStates;

TEST(ElectionModelTest, NeverMayTwoWriteAtOnce) {
  const Verdict verdict = explore(Mistake::kNone, kMaxSoundStates);
  std::cout << verdict.num_states << " states, in " << verdict.num_led << " somebody may write\n";
  EXPECT_FALSE(verdict.two_may_write);
  EXPECT_GT(verdict.num_led, 1000U);
  if (!kIsInstrumented) {
    EXPECT_LT(verdict.num_states, kMaxSoundStates) << "not all were looked at";
  }
}

TEST(ElectionModelTest, FindsAFenceThatDoesNotCloseByItself) {
  EXPECT_TRUE(explore(Mistake::kNoDeadline, kMaxStates).two_may_write);
}

TEST(ElectionModelTest, FindsADeadlineAfterTheEndOfTheLease) {
  EXPECT_TRUE(explore(Mistake::kLateDeadline, kMaxStates).two_may_write);
}

}  // namespace
}  // namespace lockstep::kube
