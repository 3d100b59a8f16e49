#include "runtime/comm/meeting.h"

#include <memory>
#include <optional>
#include <utility>

#include "runtime/comm/tcp_endpoint.h"

namespace lockstep::runtime {

std::string endpoint_of(const RendezvousOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

Meeting::Meeting(const RendezvousOptions& options, Clock::time_point deadline)
    : options_(options), deadline_(deadline), store_(open()) {}

KeyStore Meeting::open() {
  std::shared_ptr<KeyServer> server;
  std::string host = options_.master_addr;
  if (options_.rank == 0) {
    const TcpSocket socket = listen_as_master(host, options_.master_port);
    server = std::make_shared<KeyServer>(socket.fd);
    host = socket.address;
  }
  std::optional<TcpSocket> dialled = dial_listener(host, options_.master_port, deadline_);
  if (!dialled) {
    throw RendezvousTimeoutError("rank " + std::to_string(options_.rank) +
                                 ": rank 0 did not listen at " + endpoint_of(options_) +
                                 " within " + std::to_string(options_.timeout.count()) + " ms");
  }
  address_ = std::move(dialled->address);
  return {std::move(server), std::make_shared<KeyClient>(dialled->fd),
          "attempt-" + std::to_string(options_.attempt) + "/"};
}

void Meeting::set(const std::string& key, std::string_view value) const {
  store_.set(key, value, deadline_);
}

void Meeting::set_own(const std::string& name, std::string_view value) const {
  set(name + "/" + std::to_string(options_.rank), value);
}

std::string Meeting::get(const std::string& key, const std::string& writer,
                         const std::string& needed) const {
  if (std::optional<std::string> value = store_.get(key, deadline_)) return *std::move(value);
  throw RendezvousTimeoutError("rank " + std::to_string(options_.rank) + " waited " +
                               std::to_string(options_.timeout.count()) + " ms at " +
                               endpoint_of(options_) + " for " + awaited(writer, needed));
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
    if (store_.get(needed + "/" + std::to_string(rank), Clock::now())) continue;
    ranks.append(count++ > 0 ? ", " : "").append(std::to_string(rank));
  }
  if (count == 0) return writer;
  const std::string word = count == 1 ? "rank " : "ranks ";
  return word + ranks + " of " + std::to_string(options_.world_size);
}

}  // namespace lockstep::runtime
