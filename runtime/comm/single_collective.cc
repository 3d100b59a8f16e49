#include "runtime/comm/single_collective.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace lockstep::runtime {
namespace {

class FinishedPending final : public Pending {
 public:
  void wait() override {}
};

class SingleCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  const Topology& topology() const override { return topology_; }

  PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                        std::string_view what) override {
    return copy(shard, full, what);
  }
  PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                        std::string_view what, Reach /*reach*/) override {
    return copy(send, recv, what);
  }
  void begin_step(int64_t /*step*/) override {}
  std::unique_ptr<Collective> split(std::span<const int> /*members*/) override {
    return make_single_collective();
  }

 private:
  const Topology topology_ = {.backend = "single", .reason = "there is one rank"};

  static PendingPtr copy(std::span<const std::byte> from, std::span<std::byte> to,
                         std::string_view what) {
    if (from.size() != to.size()) {
      throw std::logic_error(std::string(what) + ": buffer sizes do not fit one rank");
    }
    if (from.data() != to.data() && !from.empty()) {
      std::memcpy(to.data(), from.data(), from.size());
    }
    return std::make_unique<FinishedPending>();
  }
};

}  // namespace

std::unique_ptr<Collective> make_single_collective() {
  return std::make_unique<SingleCollective>();
}

}  // namespace lockstep::runtime
