#include "runtime/launch/fetch_pages.h"

#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/loopback_listener.h"

namespace lockstep::launch {
namespace {

using common::ErrorCode;
using support::LoopbackListener;

constexpr std::chrono::seconds kLiveness{60};
constexpr int kMostRanksOfAPod = 64;

common::PageAddress page_of(const LoopbackListener& rank) {
  return {.host = "127.0.0.1", .port = rank.port(), .path = "/metrics"};
}

std::string answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

// Answers one request, whatever it asks, once it has come.
void answer_on(int connection, const std::string& bytes) {
  std::array<char, 4096> request{};
  EXPECT_GT(recv(connection, request.data(), request.size(), 0), 0);
  send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  close(connection);
}

TEST(FetchPagesTest, AllAreAskedBeforeAnyHasAnswered) {
  const std::deque<LoopbackListener> ranks(kMostRanksOfAPod);
  const std::jthread answers_last([&] {
    std::vector<int> connections;
    connections.reserve(ranks.size());
    for (const LoopbackListener& rank : ranks) {
      connections.push_back(accept4(rank.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    for (std::size_t i = 0; i < connections.size(); ++i) {
      answer_on(connections[i], answer("page " + std::to_string(i)));
    }
  });
  std::vector<common::PageAddress> pages;
  pages.reserve(ranks.size());
  for (const LoopbackListener& rank : ranks) pages.push_back(page_of(rank));
  const auto results = fetch_pages(pages, kLiveness);
  ASSERT_EQ(results.size(), ranks.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i]) << results[i].error().message;
    EXPECT_EQ(results[i].value(), "page " + std::to_string(i));
  }
}

// Each listens, as a frozen process does: the kernel accepts, and nobody reads. One after another
// they would take 64 times the limit.
TEST(FetchPagesTest, FrozenRanksCostTheLimitOnceAndHideNoOther) {
  constexpr std::chrono::milliseconds kLimit{300};
  const std::deque<LoopbackListener> frozen(kMostRanksOfAPod - 1);
  const LoopbackListener rank;
  const std::jthread answers(
      [&] { answer_on(accept4(rank.fd(), nullptr, nullptr, SOCK_CLOEXEC), answer("alive")); });
  std::vector<common::PageAddress> pages;
  pages.reserve(frozen.size() + 1);
  for (const LoopbackListener& one : frozen) pages.push_back(page_of(one));
  pages.push_back(page_of(rank));
  const auto begin = std::chrono::steady_clock::now();
  const auto results = fetch_pages(pages, kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * kLimit);
  ASSERT_TRUE(results.back()) << results.back().error().message;
  EXPECT_EQ(results.back().value(), "alive");
  for (std::size_t i = 0; i + 1 < results.size(); ++i) {
    ASSERT_FALSE(results[i]);
    EXPECT_EQ(results[i].error().code, ErrorCode::kUnavailable);
    EXPECT_NE(results[i].error().message.find("no answer in time"), std::string::npos);
  }
}

TEST(FetchPagesTest, WhatIsNoWholeAnswerIsAnErrorThatSaysSo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no HTTP answer"},
      {"hello\r\n\r\n", "no HTTP answer"},
      {"HTTP/1.1 503 Gone\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 503 Gone"},
      {"HTTP/1.1 200 OK\r\n\r\nendless", "an answer without its length"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the answer was cut short"},
  };
  for (const auto& [bytes, message] : cases) {
    const LoopbackListener rank;
    const std::jthread answers([&rank, reply = bytes] {
      answer_on(accept4(rank.fd(), nullptr, nullptr, SOCK_CLOEXEC), reply);
    });
    const auto results = fetch_pages({page_of(rank)}, kLiveness);
    ASSERT_FALSE(results.front());
    EXPECT_EQ(results.front().error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(results.front().error().message,
              "127.0.0.1:" + std::to_string(rank.port()) + "/metrics: " + message);
  }
}

TEST(FetchPagesTest, NobodyThereAndNoAddressAreErrorsAtOnce) {
  common::PageAddress nobody;
  {
    const LoopbackListener gone;
    nobody = page_of(gone);
  }
  const auto results = fetch_pages({nobody, {.host = "rank-0", .port = 1}}, kLiveness);
  EXPECT_EQ(results[0].error().code, ErrorCode::kUnavailable);
  EXPECT_NE(results[0].error().message.find("refused"), std::string::npos);
  EXPECT_EQ(results[1].error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fetch_pages({}, kLiveness).empty());
}

}  // namespace
}  // namespace lockstep::launch
