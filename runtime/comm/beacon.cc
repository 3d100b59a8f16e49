#include "runtime/comm/beacon.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

constexpr uint64_t kDatagramMagic =
    0x314e4f4341454231ULL;  // also tells a peer of another byte order

// A datagram may get lost: what must arrive is sent so often.
constexpr int kRepeats = 3;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList numeric_endpoint(const std::string& address, const std::string& port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), port.c_str(), &hints, &list) != 0) {
    throw std::runtime_error("not an endpoint: " + address + " " + port);
  }
  return {list, &freeaddrinfo};
}

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string bound_port(int socket) {
  sockaddr_storage bound = {};
  socklen_t bytes = sizeof(bound);
  std::array<char, NI_MAXSERV> port{};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&bound), bytes, nullptr, 0, port.data(),
                  port.size(), NI_NUMERICSERV | NI_DGRAM) != 0) {
    throw_errno("cannot tell the port of a beacon");
  }
  return port.data();
}

}  // namespace

// What one rank tells, with its verdict if there is one.
struct Beacon::Datagram {
  uint64_t magic = kDatagramMagic;
  uint64_t token = 0;
  int32_t rank = 0;
  uint32_t leaves = 0;
  uint32_t has_verdict = 0;
  Verdict verdict;
  uint32_t padding = 0;
  Standing standing;
};

Beacon::Beacon(const BeaconOptions& options)
    : rank_(options.rank), world_size_(options.world_size), names_(options.names) {
  const AddressList local = numeric_endpoint(options.local_address, "0");
  socket_ = socket(local->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) throw_errno("cannot open a datagram socket");
  if (bind(socket_, local->ai_addr, local->ai_addrlen) != 0) {
    const int error = errno;
    close(socket_);
    throw std::system_error(error, std::generic_category(),
                            "cannot take a datagram port of " + options.local_address);
  }
  endpoint_ = options.local_address + " " + bound_port(socket_);
}

Beacon::~Beacon() {
  if (worker_.joinable()) {
    worker_.request_stop();
    worker_.join();
    for (int i = 0; i < kRepeats; ++i) tell_all(true);
  }
  close(socket_);
}

void Beacon::start(const std::vector<std::string>& endpoints, uint64_t token) {
  token_ = token;
  peers_.resize(endpoints.size());
  for (std::size_t rank = 0; rank < endpoints.size(); ++rank) {
    const std::size_t space = endpoints[rank].find(' ');
    if (space == std::string::npos) {
      throw std::runtime_error("not an endpoint: " + endpoints[rank]);
    }
    const AddressList found =
        numeric_endpoint(endpoints[rank].substr(0, space), endpoints[rank].substr(space + 1));
    std::memcpy(&peers_[rank].address, found->ai_addr, found->ai_addrlen);
    peers_[rank].address_bytes = found->ai_addrlen;
  }
  worker_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Beacon::post(const Standing& standing) {
  const std::lock_guard lock(mutex_);
  own_ = standing;
}

void Beacon::learn(int rank, const Standing& standing) {
  const std::lock_guard lock(mutex_);
  peers_.at(static_cast<std::size_t>(rank)).standing = standing;
}

std::optional<Standing> Beacon::read(int rank) const {
  const std::lock_guard lock(mutex_);
  return rank == rank_ ? own_ : peers_.at(static_cast<std::size_t>(rank)).standing;
}

Presence Beacon::presence(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
  if (rank == rank_) return Presence::kThere;
  if (peer.left) return Presence::kLeft;
  // Whoever was never heard may be behind a wall that stops datagrams: no proof of anything.
  const bool is_silent = peer.heard_at && Clock::now() - *peer.heard_at > kSilence;
  return is_silent ? Presence::kSilent : Presence::kThere;
}

std::optional<Verdict> Beacon::accuse(const Verdict& verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (verdict_) return verdict_;
    verdict_ = verdict;
  }
  for (int i = 0; i < kRepeats; ++i) tell_all(false);
  return std::nullopt;
}

std::optional<Verdict> Beacon::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Beacon::run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "lockstep-beacon");
  Clock::time_point next_tell = Clock::now();
  while (!stop.stop_requested()) {
    if (Clock::now() >= next_tell) {
      tell_all(false);
      next_tell = Clock::now() + kInterval;
    }
    pollfd readable = {.fd = socket_, .events = POLLIN, .revents = 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(next_tell - Clock::now());
    poll(&readable, 1, std::max(1, static_cast<int>(left.count())));
    receive();
  }
}

void Beacon::receive() {
  Datagram datagram;
  while (true) {
    const ssize_t bytes = recv(socket_, &datagram, sizeof(datagram), 0);
    // A refused datagram of ours to a dead peer is reported here, too, and means nothing.
    if (bytes < 0 && (errno == EINTR || errno == ECONNREFUSED)) continue;
    if (bytes < 0) return;
    if (bytes == sizeof(datagram) && datagram.magic == kDatagramMagic && datagram.token == token_ &&
        datagram.rank >= 0 && datagram.rank < world_size_) {
      take(datagram);
    }
  }
}

void Beacon::take(const Datagram& datagram) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(datagram.rank)];
  peer.standing = datagram.standing;
  peer.heard_at = Clock::now();
  peer.left = peer.left || datagram.leaves != 0;
  if (datagram.has_verdict != 0 && !verdict_) verdict_ = datagram.verdict;
}

void Beacon::tell_all(bool leaves) const {
  Datagram datagram;
  datagram.token = token_;
  datagram.rank = rank_;
  datagram.leaves = leaves ? 1 : 0;
  {
    const std::lock_guard lock(mutex_);
    datagram.standing = own_;
    datagram.has_verdict = verdict_ ? 1 : 0;
    datagram.verdict = verdict_.value_or(Verdict{});
  }
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == static_cast<std::size_t>(rank_)) continue;
    const Peer& peer = peers_[rank];
    // What cannot be sent now is told again at the next beat.
    (void)sendto(socket_, &datagram, sizeof(datagram), 0,
                 reinterpret_cast<const sockaddr*>(&peer.address), peer.address_bytes);
  }
}

}  // namespace lockstep::runtime
