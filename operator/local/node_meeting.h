// How the nodes of a run find each other before anything starts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/local/node_link.h"
#include "operator/local/node_place.h"
#include "runtime/common/result.h"

namespace lockstep::local {

// The version of this program.
std::string this_version();

// What must be the same on all nodes, and which one of them this is.
struct NodeHello {
  std::string version;  // of lockstep
  std::string name;     // of the job
  nlohmann::json spec;  // as written and overridden, with defaults; paths are not local yet
  std::vector<std::string> inputs{};  // --input
  int64_t nodes = 1;
  int64_t node_rank = 0;
};

// Nothing if `there` may run with `here` (node 0's). kConflict: it has another version, manifest
// or number of nodes; kInvalidArgument: no node can have its rank. Pure.
std::optional<common::Error> find_difference(const NodeHello& here, const NodeHello& there);

// What a hello may have as JSON: a stranger can make node 0 hold no more.
inline constexpr std::size_t kMaxHelloBytes = std::size_t{1} << 20;

nlohmann::json encode(const NodeHello& hello);
std::optional<NodeHello> decode_hello(const nlohmann::json& message);

struct MeetingOptions {
  NodePlace place;
  NodeHello hello;
  std::string output_mode;  // node 0's; the other nodes take it
  std::chrono::milliseconds patience{600000};
  int signal_fd = -1;  // as ExecutorOptions::signal_fd
  // Node 0 only: a node that joined, by its rank and address.
  std::function<void(int64_t node, const std::string& address)> on_joined{};
};

// Node 0: listens, and waits until all others have joined. Connections that say nothing that a node
// says are dropped; a second node of one rank is turned away while the first one's connection
// stands; one that differs ends the meeting. Returns links by node rank, from 1 on.
// Errors, which all nodes that came are told too: kUnavailable (time is over; names the nodes that
// are absent), kConflict (as above), kGone (a signal came). Told to nobody: kInvalidArgument (the
// hello has more than kMaxHelloBytes), and what listen_at() returns.
common::Result<std::vector<NodeLink>> await_nodes(const MeetingOptions& options);

struct Joined {
  NodeLink link;
  std::string output_mode;
};

// Any other node: dials node 0 until it answers. While another has its rank it dials on, until that
// one would have been found lost. Errors: kUnavailable (time is over; says what the last attempt
// met), kConflict (this node differs, or its rank is taken), kGone (a signal came),
// kInvalidArgument (as above); and what ended the meeting on node 0, with its code.
common::Result<Joined> join_nodes(const MeetingOptions& options);

}  // namespace lockstep::local
