#include "operator/kube/work_queue.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using Time = QueueState::Clock::time_point;

const ObjectKey kA{"ns", "a"};
const ObjectKey kB{"ns", "b"};
constexpr Time at(int ms) {
  return Time(milliseconds(ms));
}

std::optional<ObjectKey> pop(QueueState& queue) {
  const auto popped = queue.pop();
  if (!popped) return std::nullopt;
  return popped->first;
}

TEST(QueueStateTest, AKeyWaitsOnceAndInOrder) {
  QueueState queue;
  EXPECT_TRUE(queue.add(kB, at(0)));
  EXPECT_TRUE(queue.add(kA, at(1)));
  EXPECT_FALSE(queue.add(kB, at(2)));
  EXPECT_EQ(queue.depth(), 2U);
  EXPECT_EQ(queue.pop(), std::make_pair(kB, at(0)));
  EXPECT_EQ(pop(queue), kA);
  EXPECT_EQ(pop(queue), std::nullopt);
}

TEST(QueueStateTest, AKeyInWorkIsNeverHandedOutTwiceButComesBackWhenDone) {
  QueueState queue;
  queue.add(kA, at(0));
  EXPECT_EQ(pop(queue), kA);
  queue.add(kA, at(1));
  queue.add(kA, at(2));
  EXPECT_EQ(pop(queue), std::nullopt);
  EXPECT_TRUE(queue.done(kA, at(3)));
  EXPECT_EQ(queue.pop(), std::make_pair(kA, at(3)));
  EXPECT_FALSE(queue.done(kA, at(4)));
  EXPECT_EQ(queue.depth(), 0U);
}

TEST(QueueStateTest, DoneWithoutGetChangesNothing) {
  QueueState queue;
  queue.add(kA, at(0));
  EXPECT_FALSE(queue.done(kA, at(1)));
  EXPECT_EQ(queue.depth(), 1U);
}

TEST(QueueStateTest, DelayedKeysComeDueInOrderAndTheEarlierTimeCounts) {
  QueueState queue;
  queue.add_at(kA, at(100));
  queue.add_at(kB, at(50));
  queue.add_at(kA, at(70));
  queue.add_at(kA, at(90));
  EXPECT_EQ(queue.next_due(), at(50));
  EXPECT_EQ(queue.release_due(at(49)), 0);
  EXPECT_EQ(queue.release_due(at(50)), 1);
  EXPECT_EQ(queue.next_due(), at(70));
  EXPECT_EQ(queue.release_due(at(1000)), 1);
  EXPECT_EQ(queue.next_due(), std::nullopt);
  EXPECT_EQ(pop(queue), kB);
  EXPECT_EQ(pop(queue), kA);
  EXPECT_EQ(pop(queue), std::nullopt);
}

TEST(QueueStateTest, ADelayedKeyThatComesDueInWorkWaitsUntilDone) {
  QueueState queue;
  queue.add(kA, at(0));
  EXPECT_EQ(pop(queue), kA);
  queue.add_at(kA, at(10));
  queue.release_due(at(10));
  EXPECT_EQ(pop(queue), std::nullopt);
  EXPECT_TRUE(queue.done(kA, at(11)));
}

TEST(QueueStateTest, BackOffDoublesPerKeyUpToTheCapUntilForgotten) {
  QueueState queue;
  EXPECT_EQ(queue.next_backoff(kA), milliseconds(5));
  EXPECT_EQ(queue.next_backoff(kA), milliseconds(10));
  EXPECT_EQ(queue.next_backoff(kA), milliseconds(20));
  EXPECT_EQ(queue.next_backoff(kB), milliseconds(5));
  EXPECT_EQ(queue.failures(kA), 3);
  for (int i = 0; i < 100; ++i) queue.next_backoff(kA);
  EXPECT_EQ(queue.next_backoff(kA), milliseconds(1'000'000));
  queue.forget(kA);
  EXPECT_EQ(queue.failures(kA), 0);
  EXPECT_EQ(queue.next_backoff(kA), milliseconds(5));
}

TEST(WorkQueueTest, GetEndsWhenStopped) {
  WorkQueue queue;
  std::atomic<bool> ended = false;
  {
    const std::jthread worker([&](const std::stop_token& stop) {
      EXPECT_EQ(queue.get(stop), std::nullopt);
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

TEST(WorkQueueTest, DelayedAndRateLimitedKeysArrive) {
  WorkQueue queue;
  const std::stop_source never;
  queue.add_after(kA, milliseconds(5));
  EXPECT_EQ(queue.get(never.get_token()), kA);
  queue.done(kA);
  queue.add_rate_limited(kB);
  EXPECT_EQ(queue.failures(kB), 1);
  EXPECT_EQ(queue.get(never.get_token()), kB);
  queue.forget(kB);
  EXPECT_EQ(queue.failures(kB), 0);
  queue.done(kB);
}

TEST(WorkQueueTest, AWaiterWakesForAnEarlierDelay) {
  WorkQueue queue;
  queue.add_after(kA, std::chrono::hours(1));
  std::optional<ObjectKey> got;
  std::jthread worker([&](const std::stop_token& stop) { got = queue.get(stop); });
  queue.add_after(kB, milliseconds(1));
  worker.join();
  EXPECT_EQ(got, kB);
}

TEST(WorkQueueTest, ObserversSeeDepthAddsRetriesAndWork) {
  std::vector<std::size_t> depths;
  int num_adds = 0;
  int num_retries = 0;
  int num_gets = 0;
  int num_dones = 0;
  QueueObserver observer;
  observer.on_depth = [&](std::size_t depth) { depths.push_back(depth); };
  observer.on_add = [&] { ++num_adds; };
  observer.on_retry = [&] { ++num_retries; };
  observer.on_get = [&](std::chrono::duration<double>) { ++num_gets; };
  observer.on_done = [&](std::chrono::duration<double>) { ++num_dones; };
  WorkQueue queue({}, observer);
  const std::stop_source never;
  queue.add(kA);
  queue.add(kA);
  queue.get(never.get_token());
  queue.done(kA);
  queue.add_rate_limited(kA);
  queue.get(never.get_token());
  queue.done(kA);
  EXPECT_EQ(depths, (std::vector<std::size_t>{1, 0, 0}));
  EXPECT_EQ(num_adds, 2);
  EXPECT_EQ(num_retries, 1);
  EXPECT_EQ(num_gets, 2);
  EXPECT_EQ(num_dones, 2);
}

// Four producers and four workers: no key in two hands, and the last add of a key is always seen by
// a later run of that key.
TEST(WorkQueueTest, ManyThreadsLoseNothingAndNeverShareAKey) {
  constexpr int kNumKeys = 5;
  constexpr int kNumAdds = 2000;
  WorkQueue queue;
  std::vector<std::atomic<int>> version(kNumKeys);
  std::vector<std::atomic<int>> seen(kNumKeys);
  std::vector<std::atomic<int>> holders(kNumKeys);
  std::atomic<bool> shared = false;
  const auto key_of_index = [](int i) { return ObjectKey{"ns", std::to_string(i)}; };
  std::vector<std::jthread> workers;
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&](const std::stop_token& stop) {
      while (const std::optional<ObjectKey> key = queue.get(stop)) {
        const auto i = static_cast<std::size_t>(std::stoi(key->name));
        if (holders[i].fetch_add(1) != 0) shared = true;
        seen[i] = version[i].load();
        holders[i].fetch_sub(1);
        queue.done(*key);
      }
    });
  }
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < 4; ++p) {
      producers.emplace_back([&, p] {
        for (int n = 0; n < kNumAdds; ++n) {
          const int i = (n + p) % kNumKeys;
          version[static_cast<std::size_t>(i)].fetch_add(1);
          if (n % 7 == 0) {
            queue.add_after(key_of_index(i), milliseconds(1));
          } else {
            queue.add(key_of_index(i));
          }
        }
      });
    }
  }
  for (int i = 0; i < kNumKeys; ++i) queue.add(key_of_index(i));
  const auto all_seen = [&] {
    for (std::size_t i = 0; i < kNumKeys; ++i) {
      if (seen[i] != version[i]) return false;
    }
    return true;
  };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!all_seen() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_TRUE(all_seen());
  EXPECT_FALSE(shared);
}

}  // namespace
}  // namespace lockstep::kube
