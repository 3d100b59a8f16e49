#include "runtime/comm/shm_collective.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "runtime/comm/async_collective.h"
#include "runtime/comm/futex.h"

namespace lockstep::runtime {
namespace {

// Note [Chunks]
// All operations of all ranks are one sequence of chunks, numbered alike everywhere because
// operations are issued in the same order. For chunk s a rank (1) waits until every peer has
// consumed chunk s - 2, which lay in the same slot, (2) copies its bytes into its slot s % 2 and
// publishes, (3) waits for every peer's chunk s and copies what is meant for it, (4) counts it as
// consumed. Two slots let a fast rank stage the next chunk while slow ones still read this one.
// Counters wrap; only differences count.

using Clock = std::chrono::steady_clock;

// How often a sleeping rank looks whether its peer is alive. Wake-ups do not depend on it.
constexpr std::chrono::milliseconds kProbeInterval{100};
constexpr int kSpins = 500;

// Value of the abort word: who is gone or gave up.
constexpr uint32_t kGaveUp = 1U << 31;

enum class Kind : uint64_t { kAllGather = 1, kAllToAll = 2 };

std::string_view to_string(Kind kind) {
  return kind == Kind::kAllGather ? "all_gather" : "all_to_all";
}

bool has_reached(uint32_t count, uint32_t target) {
  return static_cast<int32_t>(count - target) >= 0;
}

// One operation under way. Bytes are per pair of ranks.
struct Transfer {
  Kind kind = Kind::kAllGather;
  const std::byte* from = nullptr;  // all_gather: the shard; all_to_all: one slice per rank
  std::byte* to = nullptr;          // one slice per rank
  size_t slice_bytes = 0;
  std::string_view what;
  Clock::time_point deadline;
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<ShmSegment> segment, std::chrono::milliseconds timeout)
      : segment_(std::move(segment)), timeout_(timeout) {
    const auto ranks = static_cast<unsigned>(segment_->world_size());
    // With more ranks than cores a spinning rank only keeps the awaited one from running.
    num_spins_ = ranks <= std::thread::hardware_concurrency() ? kSpins : 0;
  }

  int rank() const override { return segment_->rank(); }
  int world_size() const override { return segment_->world_size(); }
  std::string_view backend() const override { return "shared-memory"; }

  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                  std::string_view what) override {
    std::byte* const own = full.data() + static_cast<size_t>(rank()) * shard.size();
    if (own != shard.data()) std::memcpy(own, shard.data(), shard.size());
    run({.kind = Kind::kAllGather,
         .from = shard.data(),
         .to = full.data(),
         .slice_bytes = shard.size(),
         .what = what});
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                  std::string_view what) override {
    const size_t slice_bytes = send.size() / static_cast<size_t>(world_size());
    const size_t own = static_cast<size_t>(rank()) * slice_bytes;
    std::memcpy(recv.data() + own, send.data() + own, slice_bytes);
    run({.kind = Kind::kAllToAll,
         .from = send.data(),
         .to = recv.data(),
         .slice_bytes = slice_bytes,
         .what = what});
  }

 private:
  void run(Transfer transfer) {
    transfer.deadline = Clock::now() + timeout_;
    // An all_to_all slot holds one piece for every rank.
    const size_t pieces = transfer.kind == Kind::kAllToAll ? static_cast<size_t>(world_size()) : 1;
    const size_t piece_bytes = segment_->slot_bytes() / pieces;
    for (size_t begin = 0; begin < transfer.slice_bytes; begin += piece_bytes) {
      const size_t bytes = std::min(piece_bytes, transfer.slice_bytes - begin);
      stage(transfer, begin, bytes);
      for (int step = 1; step < world_size(); ++step) {
        fetch(transfer, (rank() + step) % world_size(), begin, bytes);
      }
      ++num_chunks_;
      advance(segment_->state(rank()).consumed);
    }
  }

  uint32_t slot_index() const { return num_chunks_ % ShmSegment::kNumSlots; }

  // Steps 1 and 2 of Note [Chunks].
  void stage(const Transfer& transfer, size_t begin, size_t bytes) {
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == rank()) continue;
      await(segment_->state(peer).consumed, num_chunks_ + 1 - ShmSegment::kNumSlots, peer,
            transfer);
    }
    std::byte* const slot = segment_->slot(rank(), slot_index()).data();
    if (transfer.kind == Kind::kAllGather) {
      std::memcpy(slot, transfer.from + begin, bytes);
    } else {
      for (size_t peer = 0; peer < static_cast<size_t>(world_size()); ++peer) {
        if (peer == static_cast<size_t>(rank())) continue;
        std::memcpy(slot + peer * bytes, transfer.from + peer * transfer.slice_bytes + begin,
                    bytes);
      }
    }
    segment_->tag(rank(), slot_index()) = {.operation = static_cast<uint64_t>(transfer.kind),
                                           .bytes = transfer.slice_bytes};
    advance(segment_->state(rank()).published);
  }

  // Step 3 of Note [Chunks].
  void fetch(const Transfer& transfer, int peer, size_t begin, size_t bytes) {
    await(segment_->state(peer).published, num_chunks_ + 1, peer, transfer);
    const ShmSegment::SlotTag tag = segment_->tag(peer, slot_index());
    if (tag.operation != static_cast<uint64_t>(transfer.kind) ||
        tag.bytes != transfer.slice_bytes) {
      abort_with(kGaveUp, rank());
      throw std::logic_error(describe(transfer) + ": rank " + std::to_string(peer) +
                             " is in an operation of another kind or size");
    }
    const size_t piece = transfer.kind == Kind::kAllToAll ? static_cast<size_t>(rank()) : 0;
    std::memcpy(transfer.to + static_cast<size_t>(peer) * transfer.slice_bytes + begin,
                segment_->slot(peer, slot_index()).data() + piece * bytes, bytes);
  }

  static void advance(std::atomic<uint32_t>& counter) {
    counter.fetch_add(1, std::memory_order_release);
    futex_wake(counter);
  }

  // Blocks until `peer`'s counter has reached `target`.
  void await(const std::atomic<uint32_t>& counter, uint32_t target, int peer,
             const Transfer& transfer) {
    for (int spin = 0; spin < num_spins_; ++spin) {
      if (has_reached(counter.load(std::memory_order_acquire), target)) return;
      spin_pause();
    }
    Clock::time_point next_probe = Clock::now() + kProbeInterval;
    while (true) {
      const uint32_t count = counter.load(std::memory_order_acquire);
      if (has_reached(count, target)) return;
      futex_wait(counter, count, kProbeInterval);
      if (Clock::now() < next_probe) continue;
      // Verdicts are taken before the counter is read once more: a peer may publish and then leave.
      const bool gone = segment_->is_dead(peer);
      const uint32_t aborted = segment_->abort_word().load(std::memory_order_acquire);
      if (has_reached(counter.load(std::memory_order_acquire), target)) return;
      // The first verdict names the culprit; a peer may only have left because of it.
      if (aborted != 0) throw_aborted(aborted, transfer);
      if (gone) throw_lost(peer, transfer);
      if (Clock::now() >= transfer.deadline) throw_timeout(peer, transfer);
      next_probe = Clock::now() + kProbeInterval;
    }
  }

  [[noreturn]] void throw_lost(int peer, const Transfer& transfer) {
    const bool left = segment_->state(peer).left.load(std::memory_order_acquire) != 0;
    abort_with(0, peer);
    throw PeerLostError(describe(transfer) + ": rank " + std::to_string(peer) +
                        (left ? " has left" : " is dead"));
  }

  [[noreturn]] static void throw_aborted(uint32_t word, const Transfer& transfer) {
    const std::string who = "rank " + std::to_string((word & ~kGaveUp) - 1);
    throw PeerLostError(describe(transfer) + ": " + who +
                        ((word & kGaveUp) != 0 ? " gave up" : " is gone, as a peer found"));
  }

  [[noreturn]] void throw_timeout(int peer, const Transfer& transfer) {
    abort_with(kGaveUp, rank());
    throw CollectiveTimeoutError(describe(transfer) + ": rank " + std::to_string(peer) +
                                 " did not arrive within " + std::to_string(timeout_.count()) +
                                 " ms");
  }

  // The first verdict stays; sleepers see it at their next probe.
  void abort_with(uint32_t flag, int culprit) {
    uint32_t expected = 0;
    segment_->abort_word().compare_exchange_strong(expected,
                                                   flag | (static_cast<uint32_t>(culprit) + 1));
  }

  static std::string describe(const Transfer& transfer) {
    return std::string(to_string(transfer.kind)) + " of " + std::string(transfer.what);
  }

  std::unique_ptr<ShmSegment> segment_;
  std::chrono::milliseconds timeout_;
  int num_spins_ = 0;
  uint32_t num_chunks_ = 0;  // done so far, modulo 2^32, as the counters
};

}  // namespace

std::unique_ptr<Collective> make_shm_collective(std::unique_ptr<ShmSegment> segment,
                                                std::chrono::milliseconds timeout) {
  return make_async_collective(std::make_unique<ShmTransport>(std::move(segment), timeout));
}

}  // namespace lockstep::runtime
