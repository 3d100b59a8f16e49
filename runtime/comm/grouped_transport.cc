#include "runtime/comm/grouped_transport.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::runtime {
namespace {

class GroupedTransport final : public Transport {
 public:
  GroupedTransport(std::unique_ptr<Transport> inside, std::unique_ptr<Transport> across,
                   MakeNetworkGroup make_network_group, const std::string& reason)
      : inside_(std::move(inside)),
        across_(std::move(across)),
        make_network_group_(std::move(make_network_group)),
        topology_{.backend = inside_->topology().backend + "+" + across_->topology().backend,
                  .ranks_per_host = inside_->world_size(),
                  .reason = reason} {}

  int rank() const override { return across_->rank() * per_host() + inside_->rank(); }
  int world_size() const override { return across_->world_size() * per_host(); }
  const Topology& topology() const override { return topology_; }

  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                  const Standing& own) override {
    const size_t bytes = shard.size();
    const std::span<std::byte> gathered = room(bytes * num_hosts());
    across_->all_gather(shard, gathered, own);
    const size_t of_host = full.size() / num_hosts();
    for (size_t host = 0; host < num_hosts(); ++host) {
      inside_->all_gather(gathered.subspan(host * bytes, bytes),
                          full.subspan(host * of_host, of_host), own);
    }
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                  const Standing& own) override {
    if (own.verb == Verb::kAllToAllInside) return inside_->all_to_all(send, recv, own);
    if (own.verb == Verb::kAllToAllAcross) return across_->all_to_all(send, recv, own);
    const std::span<std::byte> exchanged = room(send.size());
    across_->all_to_all(send, exchanged, own);
    const size_t of_host = send.size() / num_hosts();
    for (size_t host = 0; host < num_hosts(); ++host) {
      inside_->all_to_all(exchanged.subspan(host * of_host, of_host),
                          recv.subspan(host * of_host, of_host), own);
    }
  }

  // Groups that all lie inside hosts share memory; others have the network alone.
  std::unique_ptr<Transport> split(std::span<const int> members, const Standing& own) override {
    const int first = across_->rank() * per_host();
    std::vector<int> places;
    places.reserve(members.size());
    for (const int member : members) places.push_back(member - first);
    const bool is_inside = std::all_of(places.begin(), places.end(),
                                       [&](int place) { return place >= 0 && place < per_host(); });
    const std::vector<std::string> told = gather_group_texts(*this, is_inside ? "inside" : "", own);
    const bool all_inside = std::none_of(told.begin(), told.end(),
                                         [](const std::string& text) { return text.empty(); });
    return all_inside ? inside_->split(places, own) : make_network_group_(*this, members, own);
  }

 private:
  int per_host() const { return inside_->world_size(); }
  size_t num_hosts() const { return static_cast<size_t>(across_->world_size()); }

  // Between the levels; kept at the size of the largest operation.
  std::span<std::byte> room(size_t bytes) {
    if (room_.size() < bytes) room_.resize(bytes);
    return std::span(room_).first(bytes);
  }

  std::unique_ptr<Transport> inside_;
  std::unique_ptr<Transport> across_;
  MakeNetworkGroup make_network_group_;
  Topology topology_;
  std::vector<std::byte> room_;
};

}  // namespace

std::unique_ptr<Transport> make_grouped_transport(std::unique_ptr<Transport> inside,
                                                  std::unique_ptr<Transport> across,
                                                  MakeNetworkGroup make_network_group,
                                                  const std::string& reason) {
  return std::make_unique<GroupedTransport>(std::move(inside), std::move(across),
                                            std::move(make_network_group), reason);
}

}  // namespace lockstep::runtime
