// What nodes tell each other once they have met: node 0 says what to do, the others what became of
// it. Pure. Every message is an object of one key; encode() and decode are each other's inverse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/local/run_end.h"
#include "operator/plan/plan.h"

namespace lockstep::local {

// From node 0. Actions on pods and on what they read; nothing for those that concern node 0 alone.
std::optional<nlohmann::json> encode_action(const plan::Action& action);
// The action of a message; nothing if it holds none. A pod to be deleted has no uid: the node knows
// which of its processes has the name.
std::optional<plan::Action> decode_action(const nlohmann::json& message);

// How the run ended, for the nodes that did not decide it.
struct NodeFarewell {
  RunEnd end = RunEnd::kSucceeded;
  std::string message;  // why; empty after success
  std::string hint{};   // what to do; may be empty
};
nlohmann::json encode(const NodeFarewell& farewell);
std::optional<NodeFarewell> decode_farewell(const nlohmann::json& message);

// To node 0: a rank's process ended, or is deleted and gone.
struct RankNews {
  std::string pod;
  std::optional<plan::ContainerExit> exit;  // nothing = it is gone
};
nlohmann::json encode(const RankNews& news);
std::optional<RankNews> decode_rank_news(const nlohmann::json& message);

// The other messages, by their key.
inline constexpr const char* kKillAll = "killAll";  // from node 0: true
inline constexpr const char* kAskRank = "askRank";  // from node 0: {attempt, rank} to ask
inline constexpr const char* kAnswer = "answer";  // to node 0: {attempt, rank, progress}, "" = none
inline constexpr const char* kStop = "stop";      // to node 0: true; somebody pressed Ctrl-C
// To node 0: {message, hint}, why a rank could not be started.
inline constexpr const char* kCannot = "cannot";

}  // namespace lockstep::local
