#include "runtime/comm/meeting.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/comm/tcp_endpoint.h"

namespace lockstep::runtime {
namespace {

using Clock = Meeting::Clock;

std::chrono::milliseconds time_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));  // c10d reads 0 as forever
}

}  // namespace

std::string endpoint_of(const RendezvousOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

Meeting::Meeting(const RendezvousOptions& options, Clock::time_point deadline)
    : options_(options), deadline_(deadline) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options.master_port);
  store_options.isServer = options.rank == 0;
  store_options.waitWorkers = false;
  if (options.rank == 0) {
    const ListeningSocket socket = listen_as_master(options.master_addr, options.master_port);
    store_options.masterListenFd = socket.fd;  // the store closes it
    address_ = socket.address;
  } else {
    const auto found = await_listener(options.master_addr, options.master_port, deadline);
    if (!found) {
      throw RendezvousTimeoutError("rank " + std::to_string(options.rank) +
                                   ": rank 0 did not listen at " + endpoint_of(options) +
                                   " within " + std::to_string(options.timeout.count()) + " ms");
    }
    address_ = *found;
  }
  store_options.timeout = time_left(deadline);
  auto tcp = c10::make_intrusive<c10d::TCPStore>(address_, store_options);
  const std::string prefix = "attempt-" + std::to_string(options.attempt);
  store_ = c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(tcp));
}

void Meeting::set(const std::string& key, std::string_view value) const {
  store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

void Meeting::set_own(const std::string& name, std::string_view value) const {
  set(name + "/" + std::to_string(options_.rank), value);
}

std::string Meeting::get(const std::string& key, const std::string& writer,
                         const std::string& needed) const {
  try {
    store_->wait({key}, time_left(deadline_));
  } catch (const c10::DistStoreError&) {
    throw RendezvousTimeoutError("rank " + std::to_string(options_.rank) + " waited " +
                                 std::to_string(options_.timeout.count()) + " ms at " +
                                 endpoint_of(options_) + " for " + awaited(writer, needed));
  }
  const std::vector<uint8_t> value = store_->get(key);
  return {value.begin(), value.end()};
}

std::vector<std::string> Meeting::get_from_all(const std::string& name) const {
  std::vector<std::string> values;
  values.reserve(static_cast<size_t>(options_.world_size));
  for (int rank = 0; rank < options_.world_size; ++rank) {
    values.push_back(get(name + "/" + std::to_string(rank), "rank " + std::to_string(rank), name));
  }
  return values;
}

std::string Meeting::awaited(const std::string& writer, const std::string& needed) const {
  std::string ranks;
  int count = 0;
  for (int rank = 0; !needed.empty() && rank < options_.world_size; ++rank) {
    if (store_->check({needed + "/" + std::to_string(rank)})) continue;
    ranks.append(count++ > 0 ? ", " : "").append(std::to_string(rank));
  }
  if (count == 0) return writer;
  const std::string word = count == 1 ? "rank " : "ranks ";
  return word + ranks + " of " + std::to_string(options_.world_size);
}

}  // namespace lockstep::runtime
