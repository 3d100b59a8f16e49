#include "runtime/train/side_work.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds kMeetEvery{1};

enum class Stage : int64_t { kAtWork, kDone, kFailed };

// What a rank tells when ranks meet.
struct Standing {
  Stage stage = Stage::kAtWork;
  int64_t progress = 0;
  bool operator==(const Standing&) const = default;
};

// The thread that works.
class Worker {
 public:
  explicit Worker(const SideWork& work) : work_(work) {
    if (!work.run) {
      stage_ = Stage::kDone;
      return;
    }
    thread_ = std::jthread([this](const std::stop_token& stop) {
      pthread_setname_np(pthread_self(), "side-work");
      run(stop);
    });
  }

  // Waits for the end of the work, but not longer than until the ranks meet again.
  Standing await() {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kMeetEvery, [this] { return stage_ != Stage::kAtWork; });
    return {stage_, work_.progress ? work_.progress() : 0};
  }

  // Of work that has failed. Throws what it threw.
  std::optional<RunFailure> failure() {
    const std::lock_guard lock(mutex_);
    if (thrown_) std::rethrow_exception(thrown_);
    return failure_;
  }

 private:
  void run(const std::stop_token& stop) {
    std::optional<RunFailure> failure;
    std::exception_ptr thrown;
    try {
      failure = work_.run(stop);
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    stage_ = failure || thrown ? Stage::kFailed : Stage::kDone;
    failure_ = std::move(failure);
    thrown_ = thrown;
    ended_.notify_all();
  }

  const SideWork& work_;
  std::mutex mutex_;
  std::condition_variable ended_;
  Stage stage_ = Stage::kAtWork;       // guarded by mutex_
  std::optional<RunFailure> failure_;  // guarded by mutex_
  std::exception_ptr thrown_;          // guarded by mutex_
  std::jthread thread_;                // last: joined before the members that it uses die
};

bool any_is(const std::vector<Standing>& all, Stage stage) {
  for (const Standing& standing : all) {
    if (standing.stage == stage) return true;
  }
  return false;
}

}  // namespace

void work_aside(Collective& collective, const SideWork& work) {
  Worker worker(work);
  std::vector<Standing> before;
  while (true) {
    const Standing mine = worker.await();
    const std::vector<Standing> all = gather_values(collective, mine, work.what);
    if (all != before && work.got_on) work.got_on();
    before = all;
    if (any_is(all, Stage::kFailed)) {
      agree(collective, mine.stage == Stage::kFailed ? worker.failure() : std::nullopt, work.what);
    }
    if (!any_is(all, Stage::kAtWork)) return;
  }
}

}  // namespace lockstep::runtime
