#include "operator/local/node_messages.h"

#include <array>
#include <string_view>
#include <utility>
#include <variant>

namespace lockstep::local {

using nlohmann::json;

namespace {

constexpr const char* kCreateConfigMap = "createConfigMap";
constexpr const char* kDeleteConfigMap = "deleteConfigMap";
constexpr const char* kCreatePod = "createPod";
constexpr const char* kDeletePod = "deletePod";
constexpr const char* kFarewell = "farewell";
constexpr const char* kRankNews = "rank";

struct Encoder {
  std::optional<json> operator()(const plan::CreateConfigMap& one) const {
    return json{{kCreateConfigMap, {{"name", one.name}, {"body", one.body}}}};
  }
  std::optional<json> operator()(const plan::DeleteConfigMap& one) const {
    return json{{kDeleteConfigMap, {{"name", one.name}, {"uid", one.uid}}}};
  }
  std::optional<json> operator()(const plan::CreatePod& one) const {
    return json{{kCreatePod, {{"name", one.name}, {"rank", one.rank}, {"body", one.body}}}};
  }
  std::optional<json> operator()(const plan::DeletePod& one) const {
    return json{{kDeletePod, {{"name", one.name}, {"graceSeconds", one.grace_seconds}}}};
  }
  std::optional<json> operator()(const plan::CreateService&) const { return std::nullopt; }
  std::optional<json> operator()(const plan::EndPodGroup&) const { return std::nullopt; }
  std::optional<json> operator()(const plan::CreatePodGroup&) const { return std::nullopt; }
  std::optional<json> operator()(const plan::DeletePodGroup&) const { return std::nullopt; }
  std::optional<json> operator()(const plan::DeleteJob&) const { return std::nullopt; }
};

constexpr std::array<std::pair<RunEnd, std::string_view>, 5> kEnds = {
    {{RunEnd::kSucceeded, "succeeded"},
     {RunEnd::kFailed, "failed"},
     {RunEnd::kSuspended, "suspended"},
     {RunEnd::kKilled, "killed"},
     {RunEnd::kNodeLost, "nodeLost"}}};

const json* member(const json& message, const char* key) {
  const auto found = message.find(key);
  return found == message.end() ? nullptr : &*found;
}

}  // namespace

std::optional<json> encode_action(const plan::Action& action) {
  return std::visit(Encoder{}, action);
}

std::optional<plan::Action> decode_action(const json& message) {
  if (const json* const one = member(message, kCreateConfigMap)) {
    return plan::CreateConfigMap{.name = one->at("name"), .body = one->at("body")};
  }
  if (const json* const one = member(message, kDeleteConfigMap)) {
    return plan::DeleteConfigMap{.name = one->at("name"), .uid = one->at("uid")};
  }
  if (const json* const one = member(message, kCreatePod)) {
    return plan::CreatePod{
        .name = one->at("name"), .rank = one->at("rank"), .body = one->at("body")};
  }
  if (const json* const one = member(message, kDeletePod)) {
    return plan::DeletePod{
        .name = one->at("name"), .uid = "", .grace_seconds = one->at("graceSeconds")};
  }
  return std::nullopt;
}

json encode(const NodeFarewell& farewell) {
  std::string_view end;
  for (const auto& [value, name] : kEnds) {
    if (value == farewell.end) end = name;
  }
  return {{kFarewell, {{"end", end}, {"message", farewell.message}, {"hint", farewell.hint}}}};
}

std::optional<NodeFarewell> decode_farewell(const json& message) {
  const json* const one = member(message, kFarewell);
  if (one == nullptr) return std::nullopt;
  for (const auto& [value, name] : kEnds) {
    if (one->at("end") != name) continue;
    return NodeFarewell{.end = value, .message = one->at("message"), .hint = one->at("hint")};
  }
  return std::nullopt;
}

json encode(const RankNews& news) {
  json told = {{"pod", news.pod}};
  if (news.exit) {
    told["exitCode"] = news.exit->exit_code;
    told["reason"] = news.exit->reason;
    told["message"] = news.exit->message;
  }
  return {{kRankNews, told}};
}

std::optional<RankNews> decode_rank_news(const json& message) {
  const json* const one = member(message, kRankNews);
  if (one == nullptr) return std::nullopt;
  RankNews news{.pod = one->at("pod"), .exit = {}};
  if (one->contains("exitCode")) {
    news.exit = plan::ContainerExit{.exit_code = one->at("exitCode"),
                                    .reason = one->at("reason"),
                                    .message = one->at("message")};
  }
  return news;
}

}  // namespace lockstep::local
