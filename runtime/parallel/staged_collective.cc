#include "runtime/parallel/staged_collective.h"

#include <cstddef>
#include <map>
#include <utility>

#include "runtime/kernels/device.h"

namespace lockstep::runtime {
namespace {

// Host memory that comes back: operations repeat the same few sizes.
class StagingPool {
 public:
  StagingPool() = default;
  ~StagingPool() {
    for (const auto& [num_bytes, memory] : free_) device().release_host(memory);
  }
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  std::byte* take(size_t num_bytes) {
    const auto found = free_.find(num_bytes);
    if (found == free_.end()) return static_cast<std::byte*>(device().allocate_host(num_bytes));
    std::byte* const memory = found->second;
    free_.erase(found);
    return memory;
  }
  void give_back(size_t num_bytes, std::byte* memory) { free_.emplace(num_bytes, memory); }

 private:
  std::multimap<size_t, std::byte*> free_;
};

// Host memory of one operation.
class Staging {
 public:
  Staging() = default;
  Staging(std::shared_ptr<StagingPool> pool, size_t num_bytes)
      : pool_(std::move(pool)), bytes_(pool_->take(num_bytes), num_bytes) {}
  ~Staging() {
    if (pool_) pool_->give_back(bytes_.size(), bytes_.data());
  }
  Staging(Staging&& other) noexcept
      : pool_(std::move(other.pool_)), bytes_(std::exchange(other.bytes_, {})) {}
  Staging& operator=(Staging&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<StagingPool> pool_;
  std::span<std::byte> bytes_;
};

bool is_on_device(std::span<const std::byte> bytes) {
  return !bytes.empty() && device().holds(bytes.data());
}

class StagedPending final : public Pending {
 public:
  StagedPending(Staging sent, Staging received, std::span<std::byte> to, PendingPtr inner)
      : sent_(std::move(sent)), received_(std::move(received)), to_(to), inner_(std::move(inner)) {}
  void wait() override {
    inner_->wait();
    if (to_.empty()) return;
    copy_bytes(to_.data(), received_.bytes().data(), to_.size());
    to_ = {};
  }

 private:
  Staging sent_;
  Staging received_;
  std::span<std::byte> to_;
  PendingPtr inner_;  // last: it works on the others
};

class FinishedPending final : public Pending {
 public:
  void wait() override {}
};

class StagedCollective final : public Collective {
 public:
  explicit StagedCollective(std::unique_ptr<Collective> inner)
      : inner_(std::move(inner)), pool_(std::make_shared<StagingPool>()) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  const Topology& topology() const override { return inner_->topology(); }
  void begin_step(int64_t step) override { inner_->begin_step(step); }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    return make_staged_collective(inner_->split(members));
  }

  PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                        std::string_view what) override {
    if (!is_on_device(full)) return inner_->all_gather(shard, full, what);
    if (world_size() == 1) return copy_here(shard, full);
    Staging received(pool_, full.size());
    const std::span<std::byte> own =
        received.bytes().subspan(static_cast<size_t>(rank()) * shard.size(), shard.size());
    copy_bytes(own.data(), shard.data(), shard.size());
    PendingPtr inner = inner_->all_gather(own, received.bytes(), what);
    return std::make_unique<StagedPending>(Staging(), std::move(received), full, std::move(inner));
  }

  PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                        std::string_view what, Reach reach) override {
    if (!is_on_device(recv)) return inner_->all_to_all(send, recv, what, reach);
    if (world_size() == 1) return copy_here(send, recv);
    Staging sent(pool_, send.size());
    Staging received(pool_, recv.size());
    copy_bytes(sent.bytes().data(), send.data(), send.size());
    PendingPtr inner = inner_->all_to_all(sent.bytes(), received.bytes(), what, reach);
    return std::make_unique<StagedPending>(std::move(sent), std::move(received), recv,
                                           std::move(inner));
  }

 private:
  static PendingPtr copy_here(std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.data() != to.data()) copy_bytes(to.data(), from.data(), from.size());
    return std::make_unique<FinishedPending>();
  }

  std::unique_ptr<Collective> inner_;
  std::shared_ptr<StagingPool> pool_;
};

}  // namespace

std::unique_ptr<Collective> make_staged_collective(std::unique_ptr<Collective> inner) {
  return std::make_unique<StagedCollective>(std::move(inner));
}

}  // namespace lockstep::runtime
