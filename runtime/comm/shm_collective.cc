#include "runtime/comm/shm_collective.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/async_collective.h"
#include "runtime/comm/futex.h"
#include "runtime/comm/shm_board.h"

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

bool has_reached(uint32_t count, uint32_t target) {
  return static_cast<int32_t>(count - target) >= 0;
}

// One operation under way. Bytes are per pair of ranks.
struct Transfer {
  const Standing& own;
  uint64_t print = 0;               // fingerprint(own)
  const std::byte* from = nullptr;  // all_gather: the shard; all_to_all: one slice per rank
  std::byte* to = nullptr;          // one slice per rank
  size_t slice_bytes = 0;
  Clock::time_point deadline;
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::shared_ptr<ShmSegment> segment, std::chrono::milliseconds timeout,
               BoardView view)
      : segment_(std::move(segment)), view_(std::move(view)), timeout_(timeout) {
    topology_ = {.backend = "shared-memory",
                 .ranks_per_host = segment_->world_size(),
                 .reason = "all ranks can open the same segment"};
    const auto ranks = static_cast<unsigned>(segment_->world_size());
    // With more ranks than cores a spinning rank only keeps the awaited one from running.
    num_spins_ = ranks <= std::thread::hardware_concurrency() ? kSpins : 0;
  }

  int rank() const override { return segment_->rank(); }
  int world_size() const override { return segment_->world_size(); }
  const Topology& topology() const override { return topology_; }

  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                  const Standing& own) override {
    std::byte* const mine = full.data() + static_cast<size_t>(rank()) * shard.size();
    if (mine != shard.data()) std::memcpy(mine, shard.data(), shard.size());
    run({.own = own, .from = shard.data(), .to = full.data(), .slice_bytes = shard.size()});
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                  const Standing& own) override {
    const size_t slice_bytes = send.size() / static_cast<size_t>(world_size());
    const size_t mine = static_cast<size_t>(rank()) * slice_bytes;
    std::memcpy(recv.data() + mine, send.data() + mine, slice_bytes);
    run({.own = own, .from = send.data(), .to = recv.data(), .slice_bytes = slice_bytes});
  }

  std::unique_ptr<Transport> split(std::span<const int> members, const Standing& own) override {
    const std::string offered = members.front() == rank() ? offer_group(members) : "";
    std::optional<ShmSegmentFile> removed_at_end;
    if (!offered.empty()) removed_at_end.emplace(path_of(offered));
    const std::string name =
        gather_group_texts(*this, offered, own)[static_cast<size_t>(members.front())];
    std::shared_ptr<ShmSegment> segment;
    std::string failure = name.empty() ? "no segment could be made" : "";
    std::vector<int> names;
    for (const int member : members) names.push_back(board().name(view_.place(member)));
    if (!name.empty()) {
      const auto place = std::find(members.begin(), members.end(), rank());
      try {
        segment =
            std::make_shared<ShmSegment>(path_of(name), static_cast<int>(place - members.begin()),
                                         static_cast<int>(members.size()));
      } catch (const std::runtime_error& error) {
        failure = error.what();
      }
    }
    for (const std::string& told : gather_group_texts(*this, failure, own)) {
      if (told.empty()) continue;
      throw BackendUnavailableError("shared memory cannot serve a group of ranks: " + told +
                                    "; enlarge /dev/shm, or set communication.backend to gloo");
    }
    BoardView view = {.board = std::make_shared<ShmBoard>(*segment, std::move(names))};
    return std::make_unique<ShmTransport>(std::move(segment), timeout_, std::move(view));
  }

 private:
  StandingBoard& board() { return *view_.board; }
  std::string path_of(const std::string& name) const { return segment_->folder() + "/" + name; }

  // Makes the segment of a group. Returns its name; empty if there is no room.
  std::string offer_group(std::span<const int> members) const {
    std::string name = fresh_shm_segment_name();
    try {
      create_shm_segment(path_of(name), {.world_size = static_cast<int>(members.size()),
                                         .slot_bytes = segment_->slot_bytes()});
    } catch (const std::system_error&) {
      return "";
    }
    return name;
  }

  void run(Transfer transfer) {
    transfer.deadline = Clock::now() + timeout_;
    transfer.print = fingerprint(transfer.own);
    board().post(transfer.own);
    // An all_to_all slot holds one piece for every rank.
    const size_t pieces = is_all_to_all(transfer) ? static_cast<size_t>(world_size()) : 1;
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
    Standing past = transfer.own;
    past.is_past = 1;
    board().post(past);
  }

  static bool is_all_to_all(const Transfer& transfer) {
    return transfer.own.verb != Verb::kAllGather;
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
    if (!is_all_to_all(transfer)) {
      std::memcpy(slot, transfer.from + begin, bytes);
    } else {
      for (size_t peer = 0; peer < static_cast<size_t>(world_size()); ++peer) {
        if (peer == static_cast<size_t>(rank())) continue;
        std::memcpy(slot + peer * bytes, transfer.from + peer * transfer.slice_bytes + begin,
                    bytes);
      }
    }
    segment_->tag(rank(), slot_index()).fingerprint = transfer.print;
    advance(segment_->state(rank()).published);
  }

  // Step 3 of Note [Chunks].
  void fetch(const Transfer& transfer, int peer, size_t begin, size_t bytes) {
    await(segment_->state(peer).published, num_chunks_ + 1, peer, transfer);
    if (segment_->tag(peer, slot_index()).fingerprint != transfer.print) {
      give_up(board(), transfer.own,
              diverged_verdict(board(), transfer.own, view_.place(peer), timeout_), timeout_);
    }
    const size_t piece = is_all_to_all(transfer) ? static_cast<size_t>(rank()) : 0;
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
      const Presence presence = board().presence(view_.place(peer));
      const std::optional<Verdict> verdict = board().verdict();
      if (has_reached(counter.load(std::memory_order_acquire), target)) return;
      // The first verdict names the culprit; a peer may only have left because of it.
      if (verdict) throw_verdict(board(), transfer.own, *verdict);
      // A silent rank may only be stopped: the timeout decides.
      if (presence == Presence::kDead || presence == Presence::kLeft) {
        const Blame blame = presence == Presence::kLeft ? Blame::kLeft : Blame::kDead;
        give_up(board(), transfer.own,
                lost_verdict(board()).value_or(Verdict{view_.place(peer), blame}), timeout_);
      }
      if (Clock::now() >= transfer.deadline) {
        give_up(board(), transfer.own,
                late_verdict(board(), transfer.own.sequence, view_.place(peer)), timeout_);
      }
      next_probe = Clock::now() + kProbeInterval;
    }
  }

  std::shared_ptr<ShmSegment> segment_;  // the world's board may read it, too
  BoardView view_;
  Topology topology_;
  std::chrono::milliseconds timeout_;
  int num_spins_ = 0;
  uint32_t num_chunks_ = 0;  // done so far, modulo 2^32, as the counters
};

}  // namespace

std::unique_ptr<Collective> make_shm_collective(std::unique_ptr<ShmSegment> segment,
                                                std::chrono::milliseconds timeout,
                                                CollectiveObserver* observer) {
  const std::shared_ptr<ShmSegment> shared = std::move(segment);
  return make_async_collective(
      make_shm_transport(shared, timeout, {.board = std::make_shared<ShmBoard>(*shared)}),
      observer);
}

std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<ShmSegment> segment,
                                              std::chrono::milliseconds timeout, BoardView view) {
  return std::make_unique<ShmTransport>(std::move(segment), timeout, std::move(view));
}

}  // namespace lockstep::runtime
