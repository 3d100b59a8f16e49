// Addresses, listening and dialling for the rendezvous.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::runtime {

using Deadline = std::chrono::steady_clock::time_point;

// A socket, and the numeric address of who listens.
struct TcpSocket {
  int fd = -1;  // the caller closes it or hands it on
  std::string address;
};

// Listens on `port`, whose owner dials itself at the address that is returned: of the address that
// `host` stands for if that is one of this machine's, else on all addresses: jobs that share a
// machine by having an address each do not collide, and a job on loopback is not reachable from the
// network. Throws PortInUseError (rendezvous.h) if the port is taken, std::system_error otherwise.
TcpSocket listen_as_master(const std::string& host, int port);

// A connection to what listens on `port` of `host`. Resolves and dials again every few milliseconds
// until something does; nothing if `deadline` passes.
std::optional<TcpSocket> dial_listener(const std::string& host, int port, Deadline deadline);

// Numeric address of this machine from which `address` is reached. Throws std::system_error.
std::string local_address_towards(const std::string& address, int port);

// Numeric address of the network interface `name`, of the family of `address` (numeric); nothing if
// there is none. Throws std::system_error.
std::optional<std::string> address_of_interface(const std::string& name,
                                                const std::string& address);
// "eth0, lo": what address_of_interface() finds for `address`. Throws the same.
std::string interfaces_towards(const std::string& address);

}  // namespace lockstep::runtime
