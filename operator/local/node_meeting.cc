#include "operator/local/node_meeting.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "operator/local/signal_wait.h"
#include "runtime/common/suggest.h"

namespace lockstep::local {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

namespace {

using Clock = NodeLink::Clock;

constexpr std::chrono::milliseconds kMeetingTick{50};
constexpr std::chrono::milliseconds kDialInterval{200};
constexpr std::chrono::milliseconds kDialPatience{2000};

// "/train/steps" -> "spec.train.steps"
std::string field_of(json::json_pointer pointer) {
  std::string path;
  for (; !pointer.empty(); pointer.pop_back()) path.insert(0, pointer.back()).insert(0, ".");
  return path.insert(0, "spec");
}

// Where `there` differs first. Precondition: it does.
json::json_pointer find_change(const json& here, const json& there) {
  json::json_pointer at(json::diff(here, there)[0]["path"].get<std::string>());
  if (at.empty() || at.back() != "-") return at;
  at.pop_back();  // of a list that is longer there: behind our last item
  const json& parent = here.at(at);
  return parent.is_array() ? at / parent.size() : at / "-";
}

std::string value_at(const json& spec, const json::json_pointer& pointer) {
  return spec.contains(pointer) ? spec.at(pointer).dump() : "not set";
}

Error conflict(const std::string& message, const std::string& hint) {
  return Error{ErrorCode::kConflict, message, hint};
}

constexpr const char* kSameCommand =
    "every machine needs the same file, --set and --input; only --node-rank and --output may "
    "differ";

Error stopped() {
  return Error{ErrorCode::kGone, "stopped while waiting for the other nodes", ""};
}

std::string endpoint(const NodePlace& place) {
  return place.master_host + ":" + std::to_string(place.master_port);
}

std::string seconds_of(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count())
      .append(" s");
}

// Tells `links` why there is no run with them. kAlreadyExists: their rank is taken for now.
void turn_away(std::vector<NodeLink> links, const Error& error) {
  for (NodeLink& link : links) {
    link.send({{"refused", error.message},
               {"hint", error.hint},
               {"code", std::string(common::to_string(error.code))}});
  }
  await_departure(links, kDialPatience);
}

void turn_away(NodeLink link, const Error& error) {
  std::vector<NodeLink> links;
  links.push_back(std::move(link));
  turn_away(std::move(links), {error.code, "node 0 refused: " + error.message, error.hint});
}

Error decode_refusal(const json& message) {
  Error error = conflict(message.at("refused"), message.value("hint", ""));
  const std::string told = message.value("code", "");
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kAlreadyExists,
                               ErrorCode::kGone, ErrorCode::kUnavailable}) {
    if (told == common::to_string(code)) error.code = code;
  }
  return error;
}

// A node that is not node 0 would be dropped for it without a word.
Result<void> check_size(const NodeHello& hello) {
  const size_t bytes = encode(hello).dump(-1, ' ', false, json::error_handler_t::replace).size();
  if (bytes < kMaxHelloBytes) return {};
  return Error{ErrorCode::kInvalidArgument,
               "the job has " + std::to_string(bytes) + " bytes as JSON, more than the " +
                   std::to_string(kMaxHelloBytes) + " that nodes tell each other",
               "move long texts of the manifest into files"};
}

// Node 0's side.
class Meeting {
 public:
  explicit Meeting(const MeetingOptions& options) : options_(options) {}

  Result<std::vector<NodeLink>> gather() {
    RETURN_IF_ERROR(check_size(options_.hello));
    ASSIGN_OR_RETURN(listening_, listen_at(options_.place.master_host, options_.place.master_port));
    const Result<void> complete = await_all();
    std::vector<NodeLink> links;
    links.reserve(joined_.size());
    for (auto& [node, link] : joined_) links.push_back(std::move(link));
    if (!complete) {
      dissolve(std::move(links), complete.error());
      return complete.error();
    }
    for (NodeLink& link : links) link.send({{"welcome", {{"outputMode", options_.output_mode}}}});
    return links;
  }

 private:
  Result<void> await_all() {
    const auto deadline = Clock::now() + options_.patience;
    while (static_cast<int64_t>(joined_.size()) + 1 < options_.place.nodes) {
      if (wait_for_signal(options_.signal_fd, kMeetingTick)) return stopped();
      accept_strangers();
      RETURN_IF_ERROR(hear_strangers());
      forget_the_lost();
      if (Clock::now() >= deadline) return absence();
    }
    return {};
  }

  // Lets all go that came, heard or not: who is told nothing dials on until its time is over.
  void dissolve(std::vector<NodeLink> links, const Error& error) {
    accept_strangers();
    for (NodeLink& link : strangers_) links.push_back(std::move(link));
    strangers_.clear();
    turn_away(std::move(links),
              {error.code, "node 0 waits no longer: " + error.message, error.hint});
  }

  void accept_strangers() {
    while (auto link = accept_link(listening_)) {
      link->limit_lines(kMaxHelloBytes);
      strangers_.push_back(*std::move(link));
    }
  }

  Result<void> hear_strangers() {
    for (auto it = strangers_.begin(); it != strangers_.end();) {
      const std::vector<json> said = it->exchange();
      if (said.empty() && !it->lost()) {
        ++it;
        continue;
      }
      NodeLink link = std::move(*it);
      it = strangers_.erase(it);
      if (link.lost()) continue;
      const std::optional<NodeHello> hello = decode_hello(said.front());
      if (hello) RETURN_IF_ERROR(admit(std::move(link), *hello));
    }
    return {};
  }

  Result<void> admit(NodeLink link, const NodeHello& hello) {
    const std::string who = "node " + std::to_string(hello.node_rank) + " (" + link.peer() + ")";
    if (const auto error = find_difference(options_.hello, hello)) {
      const Error told{error->code, who + ": " + error->message, error->hint};
      turn_away(std::move(link), told);
      return told;
    }
    forget_the_lost();  // it may be the same node, back sooner than we saw it leave
    const auto known = joined_.find(hello.node_rank);
    if (known != joined_.end()) {
      turn_away(std::move(link), {ErrorCode::kAlreadyExists,
                                  "node " + std::to_string(hello.node_rank) +
                                      " is already there, from " + known->second.peer(),
                                  "give every machine a --node-rank of its own"});
      return {};
    }
    link.limit_lines(kMaxLineBytes);
    if (options_.on_joined) options_.on_joined(hello.node_rank, link.peer());
    joined_.emplace(hello.node_rank, std::move(link));
    return {};
  }

  // A node that left may come again.
  void forget_the_lost() {
    for (auto it = joined_.begin(); it != joined_.end();) {
      it->second.exchange();
      it = it->second.lost() ? joined_.erase(it) : std::next(it);
    }
  }

  Error absence() const {
    std::vector<std::string> absent;
    for (int64_t node = 1; node < options_.place.nodes; ++node) {
      if (!joined_.contains(node)) absent.push_back(std::to_string(node));
    }
    return Error{ErrorCode::kUnavailable,
                 "node " + common::join(absent) + " of " + std::to_string(options_.place.nodes) +
                     " did not come to " + endpoint(options_.place) + " within " +
                     seconds_of(options_.patience),
                 "start the same command there with its --node-rank; a firewall may be between"};
  }

  const MeetingOptions& options_;
  Socket listening_;
  std::vector<NodeLink> strangers_;
  std::map<int64_t, NodeLink> joined_;
};

// What node 0 answers to our hello; nothing if the connection was lost before.
Result<std::optional<Joined>> await_welcome(NodeLink link, const MeetingOptions& options) {
  link.send(encode(options.hello));
  while (true) {
    if (wait_for_signal(options.signal_fd, kMeetingTick)) return stopped();
    std::vector<json> messages = link.exchange();
    for (auto it = messages.begin(); it != messages.end(); ++it) {
      const json& message = *it;
      try {
        if (message.contains("refused")) return decode_refusal(message);
        if (!message.contains("welcome")) continue;
        std::string output_mode = message["welcome"].at("outputMode");
        // Node 0 may have given its first orders already.
        link.put_back({std::next(it), messages.end()});
        return std::optional<Joined>(Joined{std::move(link), std::move(output_mode)});
      } catch (const json::exception&) {
        link.distrust();
      }
    }
    if (link.lost()) return std::optional<Joined>{};
  }
}

}  // namespace

std::string this_version() {
  return LOCKSTEP_VERSION;
}

std::optional<Error> find_difference(const NodeHello& here, const NodeHello& there) {
  if (here.version != there.version) {
    return conflict("it runs lockstep " + there.version + ", node 0 " + here.version,
                    "install one version on all machines");
  }
  if (here.nodes != there.nodes) {
    return conflict("it was told of " + std::to_string(there.nodes) + " nodes, node 0 of " +
                        std::to_string(here.nodes),
                    "give every machine the same --nodes");
  }
  if (there.node_rank < 1 || there.node_rank >= here.nodes) {
    return Error{ErrorCode::kInvalidArgument,
                 "its rank must be from 1 to " + std::to_string(here.nodes - 1),
                 "give every machine a --node-rank of its own"};
  }
  if (here.name != there.name) {
    return conflict("metadata.name is " + there.name + " there and " + here.name + " on node 0",
                    kSameCommand);
  }
  if (here.spec != there.spec) {
    const json::json_pointer change = find_change(here.spec, there.spec);
    return conflict("the manifests differ: " + field_of(change) + " is " +
                        value_at(there.spec, change) + " there and " + value_at(here.spec, change) +
                        " on node 0",
                    kSameCommand);
  }
  if (here.inputs != there.inputs) {
    return conflict("--input is '" + common::join(there.inputs) + "' there and '" +
                        common::join(here.inputs) + "' on node 0",
                    kSameCommand);
  }
  return std::nullopt;
}

json encode(const NodeHello& hello) {
  return {{"hello",
           {{"version", hello.version},
            {"name", hello.name},
            {"spec", hello.spec},
            {"inputs", hello.inputs},
            {"nodes", hello.nodes},
            {"nodeRank", hello.node_rank}}}};
}

std::optional<NodeHello> decode_hello(const json& message) {
  try {
    const json& hello = message.at("hello");
    return NodeHello{.version = hello.at("version"),
                     .name = hello.at("name"),
                     .spec = hello.at("spec"),
                     .inputs = hello.at("inputs"),
                     .nodes = hello.at("nodes"),
                     .node_rank = hello.at("nodeRank")};
  } catch (const json::exception&) {
    return std::nullopt;  // of somebody else's program
  }
}

Result<std::vector<NodeLink>> await_nodes(const MeetingOptions& options) {
  return Meeting(options).gather();
}

Result<Joined> join_nodes(const MeetingOptions& options) {
  RETURN_IF_ERROR(check_size(options.hello));
  auto deadline = Clock::now() + options.patience;
  std::optional<Error> taken;
  std::string reason;
  while (true) {
    Result<NodeLink> link =
        dial(options.place.master_host, options.place.master_port, kDialPatience);
    reason = link ? "it hung up" : link.error().message;
    if (link) {
      Result<std::optional<Joined>> joined = await_welcome(std::move(link).value(), options);
      if (joined && joined.value()) return *std::move(joined).value();
      if (!joined && joined.error().code != ErrorCode::kAlreadyExists) return joined.error();
      if (!joined) {
        // Who has our rank may be ourselves of before, on a connection that is not yet found lost.
        if (!taken) deadline = std::min(deadline, Clock::now() + kSilenceLimit + kDialPatience);
        taken = conflict(joined.error().message, joined.error().hint);
      }
    }
    if (Clock::now() + kDialInterval >= deadline) break;
    if (wait_for_signal(options.signal_fd, kDialInterval)) return stopped();
  }
  if (taken) return *taken;
  return Error{ErrorCode::kUnavailable,
               "cannot reach node 0 at " + endpoint(options.place) + " within " +
                   seconds_of(options.patience) + ": " + reason,
               "is it running there, with --node-rank 0 and the same --master? A firewall may be "
               "between, or its own name may stand for 127.0.1.1 in its /etc/hosts"};
}

}  // namespace lockstep::local
