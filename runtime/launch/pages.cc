#include "runtime/launch/pages.h"

#include <chrono>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/common/metrics.h"
#include "runtime/common/progress.h"
#include "runtime/common/status_client.h"
#include "runtime/launch/fetch_pages.h"
#include "runtime/launch/metrics_page.h"

namespace lockstep::launch {
namespace {

using common::Error;
using common::ErrorCode;
using common::HttpResponse;
using common::Result;

constexpr std::chrono::milliseconds kPatience{500};          // less than whoever asks us has
constexpr std::chrono::milliseconds kMetricsPatience{2000};  // Prometheus waits 10 s as a rule

struct Question {
  int first_rank = 0;
  int num_ranks = 1;
  std::string path;
  std::chrono::milliseconds patience = kPatience;
};

// The answers by rank. A rank that has not told its port yet does not listen.
std::vector<Result<std::string>> ask(const PodRanks& ranks, const Question& question) {
  std::vector<std::optional<Result<std::string>>> answers;
  std::vector<common::PageAddress> pages;
  for (int rank = question.first_rank; rank < question.first_rank + question.num_ranks; ++rank) {
    int port = 0;
    if (std::ifstream(port_file(ranks.folder, rank)) >> port) {
      pages.push_back({.host = ranks.host, .port = port, .path = question.path});
      answers.emplace_back(std::nullopt);
    } else {
      answers.emplace_back(
          Error{ErrorCode::kUnavailable, "rank " + std::to_string(rank) + " does not listen", ""});
    }
  }
  std::vector<Result<std::string>> fetched = fetch_pages(pages, question.patience);
  auto next = fetched.begin();
  std::vector<Result<std::string>> all;
  all.reserve(answers.size());
  for (auto& answer : answers) all.push_back(answer ? *std::move(answer) : std::move(*next++));
  return all;
}

HttpResponse status_of(const PodRanks& ranks, int rank) {
  Result<std::string> body = std::move(ask(ranks, {.first_rank = rank, .path = "/status"}).front());
  if (!body) return {.status = 503, .body = body.error().message + "\n"};
  return {.content_type = "application/json", .body = std::move(body).value()};
}

HttpResponse metrics_of(const PodRanks& ranks) {
  std::vector<std::string> pages;
  std::string up =
      "# HELP lockstep_rank_up 1 if the rank answers the launcher of its pod.\n"
      "# TYPE lockstep_rank_up gauge\n";
  int rank = ranks.first_rank;
  for (Result<std::string>& page : ask(ranks, {.first_rank = ranks.first_rank,
                                              .num_ranks = ranks.num_ranks,
                                              .path = "/metrics",
                                              .patience = kMetricsPatience})) {
    up += "lockstep_rank_up{rank=\"" + std::to_string(rank++) + "\"} " + (page ? "1" : "0") + "\n";
    if (page) pages.push_back(std::move(page).value());
  }
  pages.push_back(std::move(up));
  return {.content_type = common::kMetricsContentType, .body = join_pages(pages)};
}

}  // namespace

std::string port_file(const std::string& folder, int rank) {
  return folder + "/rank-" + std::to_string(rank) + ".port";
}

std::map<std::string, common::HttpHandler> pod_routes(const PodRanks& ranks) {
  std::map<std::string, common::HttpHandler> routes = {
      {"/healthz", [] { return HttpResponse{.body = "ok\n"}; }},
      {"/status", [ranks] { return status_of(ranks, ranks.first_rank); }},
      {"/metrics", [ranks] { return metrics_of(ranks); }}};
  for (int rank = ranks.first_rank; rank < ranks.first_rank + ranks.num_ranks; ++rank) {
    routes["/status/" + std::to_string(rank)] = [ranks, rank] { return status_of(ranks, rank); };
  }
  return routes;
}

}  // namespace lockstep::launch
