// lockstep-runtime with a fault in it: the same objects and the same main(), linked with
// `--wrap=SYMBOL` for a few functions that one of them calls and another defines. So the program
// that users run has no hook at all, and a function that is renamed fails to link here.
//
// LOCKSTEP_TEST_FAULT says what goes wrong in this rank, as JSON:
//   {"at": POINT, "what": TEXT, "step": N, "do": ACTION, "milliseconds": M, "mark": PATH}
// The first time that POINT is reached with TEXT in what it is about, in step N or later, PATH is
// created, with the number of that step, and ACTION carried out.
//   POINT   start, rendezvous, meeting; data, forward, backward, optimizer (of what: a block);
//           communication (a collective is issued; of what: its name); write, sync, rename (a
//           system call; of what: the path)
//   ACTION  kill, stop, term: the signal to this process; delay: sleep M milliseconds, this time
//           and every time after; tear: write the first half of the bytes, then kill; full: write
//           the first half and fail with ENOSPC, and fail so in all writes after
//
// Note [Forks]
// Loading LibTorch takes most of the time of a tiny run. With LOCKSTEP_TEST_FORKS in its
// environment this program stays as it is once it is loaded, before main(). For every line on
// standard input,
// {"env": {NAME: VALUE}, "log": PATH}, it forks a process that goes on into main() with that
// environment and log, and answers its pid. The rank becomes a child of the nearest subreaper.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/disk.h"
#include "runtime/comm/async_collective.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/standing.h"
#include "runtime/common/step_parts.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/start_up.h"
#include "runtime/train/step_clock.h"

namespace lockstep::runtime {
namespace {

enum class Action { kNone, kKill, kStop, kTerm, kDelay, kTear, kFull };

// What LOCKSTEP_TEST_FAULT says, and how far it has come. Of all threads.
class Fault {
 public:
  Fault() {
    const char* const text = std::getenv("LOCKSTEP_TEST_FAULT");
    if (text == nullptr) return;
    const nlohmann::json json = nlohmann::json::parse(text);
    at_ = json.at("at");
    what_ = json.value("what", "");
    step_ = json.value("step", 0);
    milliseconds_ = json.value("milliseconds", 0);
    mark_ = json.at("mark");
    const std::array names = {"none", "kill", "stop", "term", "delay", "tear", "full"};
    const auto found = std::find(names.begin(), names.end(), json.at("do"));
    action_ = static_cast<Action>(found - names.begin());
    if (found == names.end() || action_ == Action::kNone) std::abort();
  }

  void begin_step(int64_t step) { current_step_ = step; }

  // Tells that this rank is at `point`. Returns what the caller has to do itself: kTear, kFull or
  // nothing.
  Action reach(std::string_view point, std::string_view what) {
    const bool is_here =
        point == at_ && what.find(what_) != std::string_view::npos && current_step_ >= step_;
    if (!is_here) return Action::kNone;
    const bool is_first = !begun_.exchange(true);
    if (is_first) mark();
    const bool goes_on = action_ == Action::kDelay || action_ == Action::kFull;
    return is_first || goes_on ? act() : Action::kNone;
  }
  // Whether every write fails from now on.
  bool is_full() const { return begun_ && action_ == Action::kFull; }

 private:
  void mark() const {
    const int file = open(mark_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || dprintf(file, "%lld", static_cast<long long>(current_step_)) < 0) std::abort();
    close(file);
  }

  Action act() const {
    switch (action_) {
      case Action::kKill:
        kill(getpid(), SIGKILL);
        break;
      case Action::kStop:
        kill(getpid(), SIGSTOP);
        break;
      case Action::kTerm:
        kill(getpid(), SIGTERM);
        break;
      case Action::kDelay:
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
        break;
      default:
        return action_;
    }
    return Action::kNone;
  }

  std::string at_;
  std::string what_;
  int64_t step_ = 0;
  int64_t milliseconds_ = 0;
  std::string mark_;
  Action action_ = Action::kNone;
  std::atomic<int64_t> current_step_{0};
  std::atomic<bool> begun_{false};
};

Fault& fault() {
  static Fault of_this_process;
  return of_this_process;
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return {path.data(), static_cast<std::size_t>(
                           std::max<ssize_t>(0, readlink(link.c_str(), path.data(), path.size())))};
}

// Carries out a write with what is wrong with it; `real` writes its first argument's bytes.
template <typename Write>
ssize_t faulty_write(int descriptor, std::size_t num_bytes, const Write& real) {
  const bool was_full = fault().is_full();
  const Action action = fault().reach("write", path_of(descriptor));
  if (action == Action::kNone && !was_full) return real(num_bytes);
  const ssize_t half = was_full ? 0 : real(num_bytes / 2);
  if (action == Action::kTear) kill(getpid(), SIGKILL);
  if (half > 0) return half;
  errno = ENOSPC;
  return -1;
}

// In a rank that was just forked: all that an exec would have given it.
void become_rank(const nlohmann::json& request) {
  const int log = open(request.at("log").get<std::string>().c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  clearenv();
  for (const auto& [name, value] : request.at("env").items()) {
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
}

// Note [Forks]. Returns in ranks only.
void serve_forks() {
  void* const shared = mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto& pid = *new (shared) std::atomic<pid_t>(0);
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json request = nlohmann::json::parse(line);
    const pid_t between = fork();
    if (between == 0) {
      const pid_t rank = fork();
      if (rank == 0) return become_rank(request);
      pid = rank;
      _exit(rank < 0 ? 1 : 0);  // which gives the rank away
    }
    int status = 0;
    if (between < 0 || waitpid(between, &status, 0) != between || status != 0) std::abort();
    std::printf("%d\n", pid.load());
    std::fflush(stdout);
  }
  _exit(0);
}

// Runs after the constructors of libraries, before main().
__attribute__((constructor)) void serve_forks_if_asked() {
  if (std::getenv("LOCKSTEP_TEST_FORKS") != nullptr) serve_forks();
}

}  // namespace

// The wrapped functions. real_X is the one of the runtime; calls of X come to wrapped_X. Members
// take their object first, which is how they are called.
#define WRAPPED(name, symbol, result, parameters)      \
  result real_##name parameters asm("__real_" symbol); \
  result wrapped_##name parameters asm("__wrap_" symbol)

WRAPPED(load_job, "_ZN8lockstep7runtime8load_jobERNS0_9RankStateE", void, (RankState & s));
WRAPPED(connect, "_ZN8lockstep7runtime7connectERKNS0_17RendezvousOptionsE",
        std::unique_ptr<Collective>, (const RendezvousOptions& options));
WRAPPED(make_async_collective,
        "_ZN8lockstep7runtime21make_async_collectiveESt10unique_ptrINS0_9TransportE"
        "St14default_deleteIS2_EEPNS0_18CollectiveObserverE",
        std::unique_ptr<Collective>,
        (std::unique_ptr<Transport> transport, CollectiveObserver* observer));
WRAPPED(make_standing,
        "_ZN8lockstep7runtime13make_standingEmlNS0_4VerbEmSt17basic_string_viewIcSt11char_"
        "traitsIcEE",
        Standing,
        (uint64_t sequence, int64_t step, Verb verb, uint64_t slice_bytes, std::string_view what));
WRAPPED(begin_step, "_ZN8lockstep7runtime9StepClock10begin_stepEl", void,
        (StepClock * clock, int64_t step));
WRAPPED(enter,
        "_ZN8lockstep7runtime9StepClock5enterENS_6common8StepPartESt17basic_string_viewIcSt11char_"
        "traitsIcEE",
        void, (StepClock * clock, common::StepPart part, std::string_view what));
WRAPPED(pwrite, "pwrite", ssize_t, (int descriptor, const void* bytes, size_t size, off_t offset));
WRAPPED(write, "write", ssize_t, (int descriptor, const void* bytes, size_t size));
WRAPPED(fsync, "fsync", int, (int descriptor));
WRAPPED(rename, "rename", int, (const char* from, const char* to));
#undef WRAPPED

void wrapped_load_job(RankState& s) {
  fault().reach("start", "");
  real_load_job(s);
}

std::unique_ptr<Collective> wrapped_connect(const RendezvousOptions& options) {
  fault().reach("rendezvous", "");
  return real_connect(options);
}

std::unique_ptr<Collective> wrapped_make_async_collective(std::unique_ptr<Transport> transport,
                                                          CollectiveObserver* observer) {
  fault().reach("meeting", "");
  return real_make_async_collective(std::move(transport), observer);
}

Standing wrapped_make_standing(uint64_t sequence, int64_t step, Verb verb, uint64_t slice_bytes,
                               std::string_view what) {
  fault().reach("communication", what);
  return real_make_standing(sequence, step, verb, slice_bytes, what);
}

void wrapped_begin_step(StepClock* clock, int64_t step) {
  fault().begin_step(step);
  real_begin_step(clock, step);
}

void wrapped_enter(StepClock* clock, common::StepPart part, std::string_view what) {
  fault().reach(common::kStepPartNames[static_cast<std::size_t>(part)], what);
  real_enter(clock, part, what);
}

ssize_t wrapped_pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  return faulty_write(descriptor, size, [&](std::size_t num_bytes) {
    return real_pwrite(descriptor, bytes, num_bytes, offset);
  });
}

ssize_t wrapped_write(int descriptor, const void* bytes, size_t size) {
  return faulty_write(descriptor, size, [&](std::size_t num_bytes) {
    return real_write(descriptor, bytes, num_bytes);
  });
}

int wrapped_fsync(int descriptor) {
  fault().reach("sync", path_of(descriptor));
  return real_fsync(descriptor);
}

int wrapped_rename(const char* from, const char* to) {
  fault().reach("rename", to);
  return real_rename(from, to);
}

}  // namespace lockstep::runtime
