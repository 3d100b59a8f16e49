#include "operator/local/node_group.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "runtime/common/status_client.h"

namespace lockstep::local {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kStatusTimeout{200};
constexpr std::chrono::seconds kFarewellTime{5};

std::string name_of_node(size_t link) {
  return "node-" + std::to_string(link + 1);
}

int64_t world_size_of(const json& pod) {
  for (const json& variable : pod["spec"]["containers"][0]["env"]) {
    if (variable["name"] == "WORLD_SIZE") return std::stoll(variable["value"].get<std::string>());
  }
  return 1;
}

}  // namespace

Result<common::JobProgress> ask_rank_here(int metrics_port) {
  return common::fetch_status({.host = "127.0.0.1", .port = metrics_port}, kStatusTimeout);
}

NodeGroup::NodeGroup(ProcessClusterOptions options, std::vector<NodeLink> others)
    : place_(options.place), own_(std::move(options)), others_(std::move(others)) {}

NodeGroup::~NodeGroup() {
  try {
    kill_all();
  } catch (const std::exception&) {
    // The links close all the same, and who loses node 0 ends its ranks.
  }
}

std::string NodeGroup::describe(size_t link) const {
  return "node " + std::to_string(link + 1) + " (" + others_[link].peer() + ")";
}

void NodeGroup::send_to_all(const json& message) {
  for (NodeLink& link : others_) link.send(message);
}

Result<void> NodeGroup::apply(const std::vector<plan::Action>& actions) {
  for (const plan::Action& action : actions) {
    const std::optional<json> message = encode_action(action);
    if (const auto* const create = std::get_if<plan::CreatePod>(&action)) {
      const int64_t node = place_.node_of(create->rank, world_size_of(create->body));
      if (node != place_.node_rank) {
        create_remote(*create, static_cast<size_t>(node - 1), *message);
        continue;
      }
    } else if (const auto* const remove = std::get_if<plan::DeletePod>(&action)) {
      const auto found = remote_.find(remove->name);
      if (found != remote_.end()) {
        delete_remote(*remove, found->second, *message);
        continue;
      }
    } else if (message) {
      send_to_all(*message);
    }
    RETURN_IF_ERROR(own_.apply({action}));
  }
  return {};
}

void NodeGroup::create_remote(const plan::CreatePod& action, size_t link, const json& message) {
  RemotePod pod;
  pod.link = link;
  pod.view.name = action.name;
  pod.view.uid = name_of_node(link) + "-process-" + std::to_string(next_uid_++);
  pod.view.attempt = attempt_of(action.body);
  pod.view.rank = action.rank;
  pod.view.node = name_of_node(link);
  pod.view.phase = plan::PodPhase::kRunning;
  pod.view.ready = true;
  others_[link].send(message);
  remote_[action.name] = std::move(pod);
}

void NodeGroup::delete_remote(const plan::DeletePod& action, RemotePod& pod, const json& message) {
  if (pod.view.uid != action.uid) return;
  pod.view.deleting = true;
  pod.view.deletion_deadline = api::wall_clock() + std::chrono::seconds(action.grace_seconds);
  others_[pod.link].send(message);
}

plan::Observation NodeGroup::observe(const std::string& owner_uid) {
  // Our own ranks first: if they ended because a node was lost, that is known when they are judged.
  plan::Observation seen = own_.observe(owner_uid);
  for (size_t link = 0; link < others_.size(); ++link) {
    for (const json& message : others_[link].exchange()) {
      try {
        hear(link, message);
      } catch (const json::exception&) {
        others_[link].distrust();
      }
    }
    if (others_[link].lost() && !lost_node_) {
      lost_node_ = describe(link) + " is gone: " + *others_[link].lost();
    }
  }
  for (const auto& [name, pod] : remote_) {
    seen.pods.push_back(pod.view);
    seen.pods.back().owner_uid = owner_uid;
  }
  return seen;
}

void NodeGroup::hear(size_t link, const json& message) {
  if (const std::optional<RankNews> news = decode_rank_news(message)) return hear_rank(*news);
  if (message.contains(kStop)) stop_wish_ = true;
  if (message.contains(kAnswer)) {
    const json& answer = message[kAnswer];
    const std::pair<int64_t, int64_t> who(answer.at("attempt"), answer.at("rank"));
    asked_.erase(who);
    answers_[who] = answer.at("progress");
  }
  if (message.contains(kCannot) && !failure_) {
    const json& why = message[kCannot];
    failure_ = Error{ErrorCode::kUnavailable,
                     describe(link) + ": " + why.at("message").get<std::string>(), why.at("hint")};
  }
}

void NodeGroup::hear_rank(const RankNews& news) {
  const auto found = remote_.find(news.pod);
  if (found == remote_.end()) return;
  if (!news.exit) {
    remote_.erase(found);
    return;
  }
  plan::PodView& view = found->second.view;
  view.exit = news.exit;
  view.exit->finished_at = api::wall_clock();  // clocks of machines differ
  view.phase = news.exit->exit_code == 0 ? plan::PodPhase::kSucceeded : plan::PodPhase::kFailed;
  view.ready = false;
}

bool NodeGroup::is_doubtful() const {
  return std::any_of(others_.begin(), others_.end(),
                     [](const NodeLink& link) { return link.is_doubtful(); });
}

bool NodeGroup::take_stop_wish() {
  return std::exchange(stop_wish_, false);
}

bool NodeGroup::has_live_processes() const {
  if (own_.has_live_processes()) return true;
  return std::any_of(remote_.begin(), remote_.end(), [this](const auto& entry) {
    return !entry.second.ended() && !others_[entry.second.link].lost();
  });
}

void NodeGroup::kill_all() {
  send_to_all({{kKillAll, true}});
  own_.kill_all();
}

void NodeGroup::dismiss(const NodeFarewell& farewell) {
  send_to_all(encode(farewell));
  await_departure(others_, kFarewellTime);  // a node leaves when it has read how the run ended
}

std::optional<Result<common::JobProgress>> NodeGroup::progress_of(int64_t attempt, int64_t rank) {
  for (const auto& [name, pod] : remote_) {
    if (pod.view.attempt != attempt || pod.view.rank != rank || pod.ended()) continue;
    const std::pair who(attempt, rank);
    // One question at a time: a rank that hangs takes long to ask.
    if (asked_.insert(who).second) {
      others_[pod.link].send({{kAskRank, {{"attempt", attempt}, {"rank", rank}}}});
    }
    const auto answer = answers_.extract(who);
    if (answer.empty()) return std::nullopt;
    if (!answer.mapped().empty()) return common::decode_progress(answer.mapped());
    return Result<common::JobProgress>(
        Error{ErrorCode::kUnavailable, pod.view.node + " gets no answer", ""});
  }
  const std::optional<int> port = own_.metrics_port(attempt, rank);
  if (!port) return std::nullopt;
  return ask_rank_here(*port);
}

std::string NodeGroup::log_file(int64_t attempt, int64_t rank) const {
  return own_.log_file(attempt, rank);
}

}  // namespace lockstep::local
