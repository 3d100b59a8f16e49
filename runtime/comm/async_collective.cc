#include "runtime/comm/async_collective.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
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
  // Of nothing: done from the start, and nobody is told of it.
  Completion() : done_(true) {}
  Completion(const Standing& own, CollectiveObserver* observer) : own_(own), observer_(observer) {}

  const Standing& own() const { return own_; }
  CollectiveObserver* observer() const { return observer_; }

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
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  const Standing own_;
  CollectiveObserver* const observer_ = nullptr;  // may be null
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
    CollectiveObserver* const observer = completion_->observer();
    const bool is_observed = observer != nullptr && !completion_->is_done();
    if (is_observed) observer->wait_begins(completion_->own().what.data());
    const std::optional<Failure> failure = completion_->await();
    if (is_observed) observer->wait_ended();
    if (failure) raise(*failure);
  }

 private:
  std::shared_ptr<Completion> completion_;
};

// What a collective and the groups split from it share; of the issuing thread.
struct Issuer {
  CollectiveObserver* observer = nullptr;
  int64_t step = 0;
  int num_queues = 0;
};

class AsyncCollective final : public Collective {
 public:
  AsyncCollective(std::unique_ptr<Transport> transport, std::shared_ptr<Issuer> issuer)
      : transport_(std::move(transport)),
        issuer_(std::move(issuer)),
        queue_index_(issuer_->num_queues++),
        worker_([this](const std::stop_token& stop) { run(stop); }) {}

  int rank() const override { return transport_->rank(); }
  int world_size() const override { return transport_->world_size(); }
  const Topology& topology() const override { return transport_->topology(); }

  PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                        std::string_view what) override {
    if (full.size() != shard.size() * num_ranks()) {
      throw std::logic_error(std::string(what) + ": all_gather of " + std::to_string(shard.size()) +
                             " bytes per rank into " + std::to_string(full.size()));
    }
    if (full.empty()) return nothing_to_do();
    return enqueue(
        stand(Verb::kAllGather, shard.size(), what),
        [this, shard, full](const Standing& own) { transport_->all_gather(shard, full, own); });
  }

  PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                        std::string_view what, Reach reach) override {
    const size_t ranks = num_ranks(reach);
    if (send.size() != recv.size() || send.size() % ranks != 0) {
      throw std::logic_error(std::string(what) + ": all_to_all of " + std::to_string(send.size()) +
                             " bytes into " + std::to_string(recv.size()));
    }
    if (send.empty()) return nothing_to_do();
    if (ranks == 1) {
      std::memmove(recv.data(), send.data(), send.size());
      return nothing_to_do();
    }
    const Verb verb = ranks == num_ranks()      ? Verb::kAllToAll
                      : reach == Reach::kInside ? Verb::kAllToAllInside
                                                : Verb::kAllToAllAcross;
    return enqueue(stand(verb, send.size() / ranks, what), [this, send, recv](const Standing& own) {
      transport_->all_to_all(send, recv, own);
    });
  }

  void begin_step(int64_t step) override { issuer_->step = step; }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    std::unique_ptr<Transport> group;
    enqueue(stand(Verb::kAllGather, kGroupTextBytes, "forming groups of ranks"),
            [&](const Standing& own) { group = transport_->split(members, own); })
        ->wait();
    return std::make_unique<AsyncCollective>(std::move(group), issuer_);
  }

 private:
  using Clock = CollectiveSpan::Clock;
  using Run = std::function<void(const Standing& own)>;
  struct Operation {
    Run run;
    std::shared_ptr<Completion> completion;
    Clock::time_point issued;
  };

  size_t num_ranks() const { return static_cast<size_t>(transport_->world_size()); }
  size_t num_ranks(Reach reach) const {
    const auto per_host = static_cast<size_t>(topology().ranks_per_host);
    if (reach == Reach::kWorld) return num_ranks();
    return reach == Reach::kInside ? per_host : num_ranks() / per_host;
  }

  static PendingPtr nothing_to_do() {
    return std::make_unique<QueuedPending>(std::make_shared<Completion>());
  }

  Standing stand(Verb verb, size_t slice_bytes, std::string_view what) {
    return make_standing(++num_issued_, issuer_->step, verb, slice_bytes, what);
  }

  PendingPtr enqueue(const Standing& own, Run operation) {
    auto completion = std::make_shared<Completion>(own, issuer_->observer);
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(operation), completion, Clock::now()});
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
      const Clock::time_point began = Clock::now();
      if (!failure) failure = attempt(operation);
      tell(operation, began);
      operation.completion->finish(failure);
    }
  }

  void tell(const Operation& operation, Clock::time_point began) const {
    CollectiveObserver* const observer = operation.completion->observer();
    if (observer == nullptr) return;
    observer->carried_out({.what = operation.completion->own().what.data(),
                           .queue = queue_index_,
                           .issued = operation.issued,
                           .began = began,
                           .ended = Clock::now()});
  }

  static std::optional<Failure> attempt(const Operation& operation) {
    try {
      operation.run(operation.completion->own());
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
  std::shared_ptr<Issuer> issuer_;
  const int queue_index_;
  uint64_t num_issued_ = 0;  // of the issuing thread
  std::mutex mutex_;
  std::condition_variable_any issued_;
  std::deque<Operation> queue_;  // guarded by mutex_
  std::jthread worker_;          // last: joined before the members that it uses die
};

}  // namespace

std::unique_ptr<Collective> make_async_collective(std::unique_ptr<Transport> transport,
                                                  CollectiveObserver* observer) {
  return std::make_unique<AsyncCollective>(std::move(transport),
                                           std::make_shared<Issuer>(Issuer{.observer = observer}));
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
