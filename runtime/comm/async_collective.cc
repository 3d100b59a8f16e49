#include "runtime/comm/async_collective.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>

namespace lockstep::runtime {
namespace {

// How an operation ended. Kept as a value and thrown afresh by every waiter: one exception object
// is never shared between threads.
struct Failure {
  enum class Kind { kPeerLost, kTimeout, kUnavailable, kOther };
  Kind kind = Kind::kOther;
  std::string message;
};

[[noreturn]] void raise(const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::kPeerLost:
      throw PeerLostError(failure.message);
    case Failure::Kind::kTimeout:
      throw CollectiveTimeoutError(failure.message);
    case Failure::Kind::kUnavailable:
      throw BackendUnavailableError(failure.message);
    case Failure::Kind::kOther:
      break;
  }
  throw std::runtime_error(failure.message);
}

// Shared by the operation in the queue and the Pending of its issuer.
class Completion {
 public:
  void finish(std::optional<Failure> failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
    changed_.notify_all();
  }
  std::optional<Failure> await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;               // guarded by mutex_
  std::optional<Failure> failure_;  // guarded by mutex_
};

class QueuedPending final : public Pending {
 public:
  explicit QueuedPending(std::shared_ptr<Completion> completion)
      : completion_(std::move(completion)) {}
  ~QueuedPending() override { completion_->await(); }
  void wait() override {
    if (const std::optional<Failure> failure = completion_->await()) raise(*failure);
  }

 private:
  std::shared_ptr<Completion> completion_;
};

class AsyncCollective final : public Collective {
 public:
  // `step` is that of this collective and of the groups split from it.
  AsyncCollective(std::unique_ptr<Transport> transport, std::shared_ptr<int64_t> step)
      : transport_(std::move(transport)),
        step_(std::move(step)),
        worker_([this](const std::stop_token& stop) { run(stop); }) {}

  int rank() const override { return transport_->rank(); }
  int world_size() const override { return transport_->world_size(); }
  std::string_view backend() const override { return transport_->backend(); }

  PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                        std::string_view what) override {
    if (full.size() != shard.size() * num_ranks()) {
      throw std::logic_error(std::string(what) + ": all_gather of " + std::to_string(shard.size()) +
                             " bytes per rank into " + std::to_string(full.size()));
    }
    if (full.empty()) return nothing_to_do();
    const Standing own = make_standing(++num_issued_, *step_, Verb::kAllGather, shard.size(), what);
    return enqueue([this, shard, full, own] { transport_->all_gather(shard, full, own); });
  }

  PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                        std::string_view what) override {
    if (send.size() != recv.size() || send.size() % num_ranks() != 0) {
      throw std::logic_error(std::string(what) + ": all_to_all of " + std::to_string(send.size()) +
                             " bytes into " + std::to_string(recv.size()));
    }
    if (send.empty()) return nothing_to_do();
    const Standing own =
        make_standing(++num_issued_, *step_, Verb::kAllToAll, send.size() / num_ranks(), what);
    return enqueue([this, send, recv, own] { transport_->all_to_all(send, recv, own); });
  }

  void begin_step(int64_t step) override { *step_ = step; }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    const Standing own = make_standing(++num_issued_, *step_, Verb::kAllGather, kGroupTextBytes,
                                       "forming groups of ranks");
    std::unique_ptr<Transport> group;
    enqueue([&] { group = transport_->split(members, own); })->wait();
    return std::make_unique<AsyncCollective>(std::move(group), step_);
  }

 private:
  struct Operation {
    std::function<void()> run;
    std::shared_ptr<Completion> completion;
  };

  size_t num_ranks() const { return static_cast<size_t>(transport_->world_size()); }

  static PendingPtr nothing_to_do() {
    auto completion = std::make_shared<Completion>();
    completion->finish(std::nullopt);
    return std::make_unique<QueuedPending>(std::move(completion));
  }

  PendingPtr enqueue(std::function<void()> operation) {
    auto completion = std::make_shared<Completion>();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(operation), completion});
      issued_.notify_one();
    }
    return std::make_unique<QueuedPending>(std::move(completion));
  }

  // Ends when a stop is asked for and the queue is empty.
  void run(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "lockstep-comm");
    std::optional<Failure> failure;
    while (true) {
      std::unique_lock lock(mutex_);
      issued_.wait(lock, stop, [this] { return !queue_.empty(); });
      if (queue_.empty()) return;
      const Operation operation = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!failure) failure = attempt(operation.run);
      operation.completion->finish(failure);
    }
  }

  static std::optional<Failure> attempt(const std::function<void()>& operation) {
    try {
      operation();
      return std::nullopt;
    } catch (const PeerLostError& error) {
      return Failure{Failure::Kind::kPeerLost, error.what()};
    } catch (const CollectiveTimeoutError& error) {
      return Failure{Failure::Kind::kTimeout, error.what()};
    } catch (const BackendUnavailableError& error) {
      return Failure{Failure::Kind::kUnavailable, error.what()};
    } catch (const std::exception& error) {
      return Failure{Failure::Kind::kOther, error.what()};
    }
  }

  std::unique_ptr<Transport> transport_;
  std::shared_ptr<int64_t> step_;  // of the issuing thread
  uint64_t num_issued_ = 0;        // of the issuing thread
  std::mutex mutex_;
  std::condition_variable_any issued_;
  std::deque<Operation> queue_;  // guarded by mutex_
  std::jthread worker_;          // last: joined before the members that it uses die
};

}  // namespace

std::unique_ptr<Collective> make_async_collective(std::unique_ptr<Transport> transport) {
  return std::make_unique<AsyncCollective>(std::move(transport), std::make_shared<int64_t>(0));
}

std::vector<std::string> gather_group_texts(Transport& transport, const std::string& text,
                                            const Standing& own) {
  std::vector<char> mine(kGroupTextBytes);
  std::vector<char> all(kGroupTextBytes * static_cast<size_t>(transport.world_size()));
  std::copy_n(text.data(), std::min(text.size(), kGroupTextBytes - 1), mine.data());
  transport.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), own);
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(transport.world_size()));
  for (size_t begin = 0; begin < all.size(); begin += kGroupTextBytes) {
    texts.emplace_back(all.data() + begin);
  }
  return texts;
}

}  // namespace lockstep::runtime
