// The nodes of a run find each other, as threads on loopback.
#include "operator/local/node_meeting.h"

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/common/loopback_port.h"

namespace lockstep::local {
namespace {

using JoinedNode = std::future<common::Result<Joined>>;

class MeetingTest : public testing::Test {
 protected:
  NodePlace place(int64_t node_rank) const {
    return {.nodes = nodes_,
            .node_rank = node_rank,
            .master_host = "127.0.0.1",
            .master_port = port_.number(),
            .told_by = "--nodes"};
  }
  MeetingOptions meeting(int64_t node_rank) const {
    return {.place = place(node_rank),
            .hello = {.version = this_version(),
                      .name = "demo",
                      .spec = {{"ranks", 4}},
                      .nodes = nodes_,
                      .node_rank = node_rank},
            .output_mode = "overwrite",
            .patience = std::chrono::seconds(60)};
  }
  static JoinedNode join(const MeetingOptions& options) {
    return std::async(std::launch::async, [options] { return join_nodes(options); });
  }
  // A connection to node 0, once it listens.
  NodeLink dial_node_0() const {
    common::Result<NodeLink> link = dial("127.0.0.1", port_.number(), std::chrono::seconds(5));
    while (!link) link = dial("127.0.0.1", port_.number(), std::chrono::seconds(5));
    return std::move(link).value();
  }
  // Blocks until node 0 has accepted who dialed before: it does so in order.
  void await_accepted() const {
    NodeLink stranger = dial_node_0();
    stranger.send({{"GET", "/"}});
    EXPECT_TRUE(hear(stranger).empty());
  }
  // The next message; an empty object if the connection is lost before.
  static nlohmann::json hear(NodeLink& link) {
    while (true) {
      for (const nlohmann::json& message : link.exchange()) return message;
      if (link.lost()) return nlohmann::json::object();
      usleep(1000);
    }
  }
  // The text that `node` ended with.
  static std::string refusal(JoinedNode& node, common::ErrorCode code) {
    const common::Result<Joined> joined = node.get();
    if (joined) return "joined";
    EXPECT_EQ(joined.error().code, code) << joined.error().message;
    return joined.error().message;
  }

  int64_t nodes_ = 2;
  const common::LoopbackPort port_;
};

TEST_F(MeetingTest, ADifferingNodeEndsTheMeetingForThoseThatJoined) {
  nodes_ = 3;
  JoinedNode node_1 = join(meeting(1));
  JoinedNode node_2;
  MeetingOptions first = meeting(0);
  first.on_joined = [&](int64_t, const std::string&) {
    MeetingOptions other = meeting(2);
    other.hello.name = "other";
    node_2 = join(other);
  };
  const auto links = await_nodes(first);
  ASSERT_FALSE(links.has_value());
  const std::string reason = "node 2 (127.0.0.1): metadata.name is other there and demo on node 0";
  EXPECT_EQ(links.error().message, reason);
  EXPECT_EQ(refusal(node_1, common::ErrorCode::kConflict), "node 0 waits no longer: " + reason);
  EXPECT_EQ(refusal(node_2, common::ErrorCode::kConflict), "node 0 refused: " + reason);
}

TEST_F(MeetingTest, AnAbsentNodeEndsTheMeetingForThoseThatCame) {
  nodes_ = 3;
  JoinedNode node_1 = join(meeting(1));
  MeetingOptions first = meeting(0);
  first.patience = std::chrono::milliseconds(100);
  // Until it was there at the end of a meeting.
  while (node_1.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    EXPECT_FALSE(await_nodes(first).has_value());
  }
  const common::Result<Joined> joined = node_1.get();
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, common::ErrorCode::kUnavailable);
  EXPECT_TRUE(joined.error().message.starts_with("node 0 waits no longer: node "))
      << joined.error().message;
  EXPECT_EQ(joined.error().hint,
            "start the same command there with its --node-rank; a firewall may be between");
}

TEST_F(MeetingTest, CtrlCOnNode0EndsTheMeetingForThoseThatJoined) {
  nodes_ = 3;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Socket signals(ends[0]);
  const Socket keyboard(ends[1]);
  JoinedNode node_1 = join(meeting(1));
  MeetingOptions first = meeting(0);
  first.signal_fd = signals.fd();
  first.on_joined = [&](int64_t, const std::string&) {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(keyboard.fd(), &info, sizeof info), static_cast<ssize_t>(sizeof info));
  };
  const auto links = await_nodes(first);
  ASSERT_FALSE(links.has_value());
  EXPECT_EQ(links.error().code, common::ErrorCode::kGone);
  EXPECT_EQ(refusal(node_1, common::ErrorCode::kGone),
            "node 0 waits no longer: stopped while waiting for the other nodes");
}

TEST_F(MeetingTest, ANodeThatComesBackTakesItsPlaceAgain) {
  MeetingOptions first = meeting(0);
  std::optional<NodeLink> before, after;
  std::mutex mutex;  // `before` is done with its hello before it dies
  first.on_joined = [&](int64_t, const std::string&) {
    const std::lock_guard lock(mutex);
    if (!before) return;
    before.reset();  // it dies, and is back at once
    after->send(encode(meeting(1).hello));
  };
  auto node_0 = std::async(std::launch::async, [&] { return await_nodes(first); });
  before = dial_node_0();
  after = dial_node_0();
  await_accepted();
  {
    const std::lock_guard lock(mutex);
    before->send(encode(meeting(1).hello));
  }
  const auto links = node_0.get();
  ASSERT_TRUE(links.has_value());
  EXPECT_EQ(hear(*after), R"({"welcome": {"outputMode": "overwrite"}})"_json);
}

TEST_F(MeetingTest, ANodeThatLeavesWithItsHelloIsNotAdmitted) {
  nodes_ = 3;
  MeetingOptions first = meeting(0);
  std::optional<NodeLink> hasty;
  std::vector<int64_t> joined;
  first.on_joined = [&](int64_t node, const std::string&) {
    joined.push_back(node);
    if (!hasty) return;
    hasty->send(encode(meeting(2).hello));
    hasty.reset();
  };
  auto node_0 = std::async(std::launch::async, [&] { return await_nodes(first); });
  NodeLink node_1 = dial_node_0();
  hasty = dial_node_0();
  await_accepted();
  node_1.send(encode(meeting(1).hello));
  NodeLink node_2 = dial_node_0();
  node_2.send(encode(meeting(2).hello));
  EXPECT_TRUE(hear(node_2).contains("welcome"));
  EXPECT_TRUE(node_0.get().has_value());
  EXPECT_EQ(joined, (std::vector<int64_t>{1, 2}));
}

TEST_F(MeetingTest, ANodeWhosePlaceIsTakenDialsOnUntilItIsFree) {
  const common::Result<Socket> listening = listen_at("127.0.0.1", port_.number());
  ASSERT_TRUE(listening.has_value());
  JoinedNode node_1 = join(meeting(1));
  for (const nlohmann::json& answer :
       {R"({"refused": "node 1 is already there", "hint": "", "code": "AlreadyExists"})"_json,
        R"({"welcome": {"outputMode": "resume"}})"_json}) {
    std::optional<NodeLink> link = accept_link(*listening);
    for (; !link; link = accept_link(*listening)) usleep(1000);
    EXPECT_TRUE(hear(*link).contains("hello"));
    link->send(answer);
    if (answer.contains("refused")) {
      EXPECT_TRUE(hear(*link).empty());
      continue;
    }
    const common::Result<Joined> joined = node_1.get();
    ASSERT_TRUE(joined.has_value());
    EXPECT_EQ(joined->output_mode, "resume");
  }
}

TEST_F(MeetingTest, ASecondNodeOfOneRankIsToldWhoHasIt) {
  nodes_ = 3;
  auto node_0 = std::async(std::launch::async, [&] { return await_nodes(meeting(0)); });
  NodeLink node_1 = dial_node_0();
  node_1.send(encode(meeting(1).hello));
  MeetingOptions second = meeting(1);
  second.patience = std::chrono::milliseconds(0);
  JoinedNode other = join(second);
  const std::string told = refusal(other, common::ErrorCode::kConflict);
  EXPECT_EQ(told, "node 0 refused: node 1 is already there, from 127.0.0.1");
  NodeLink node_2 = dial_node_0();
  node_2.send(encode(meeting(2).hello));
  EXPECT_TRUE(hear(node_1).contains("welcome"));
  EXPECT_TRUE(node_0.get().has_value());
}

TEST_F(MeetingTest, AnAnswerThatNoNode0GivesIsDialedPast) {
  const common::Result<Socket> listening = listen_at("127.0.0.1", port_.number());
  ASSERT_TRUE(listening.has_value());
  JoinedNode node_1 = join(meeting(1));
  for (const nlohmann::json& answer :
       {R"({"welcome": 3})"_json, R"({"refused": ["x"]})"_json,
        R"({"refused": "x", "hint": 1})"_json, R"({"welcome": {"outputMode": "auto"}})"_json}) {
    std::optional<NodeLink> link = accept_link(*listening);
    for (; !link; link = accept_link(*listening)) usleep(1000);
    EXPECT_TRUE(hear(*link).contains("hello"));
    link->send(answer);
    const bool is_last = answer.contains("welcome") && answer["welcome"].is_object();
    if (is_last) {
      EXPECT_TRUE(node_1.get().has_value());
    } else {
      EXPECT_TRUE(hear(*link).empty());
    }
  }
}

TEST_F(MeetingTest, AHelloThatIsTooLongIsRefusedOnBothSides) {
  MeetingOptions first = meeting(0);
  auto node_0 = std::async(std::launch::async, [&] { return await_nodes(first); });
  MeetingOptions large = meeting(1);
  large.hello.spec["text"] = std::string(kMaxHelloBytes, 'x');
  NodeLink stranger = dial_node_0();
  stranger.send(encode(large.hello));
  EXPECT_TRUE(hear(stranger).empty());
  JoinedNode refused = join(large);
  EXPECT_NE(refusal(refused, common::ErrorCode::kInvalidArgument).find("bytes as JSON"),
            std::string::npos);
  JoinedNode node_1 = join(meeting(1));
  EXPECT_TRUE(node_0.get().has_value());
  EXPECT_TRUE(node_1.get().has_value());
}

TEST_F(MeetingTest, AnUnequalManifestEndsTheMeetingOnBothSides) {
  MeetingOptions other = meeting(1);
  other.hello.spec = {{"ranks", 4}, {"train", {{"steps", 20}}}};
  std::future<common::Result<Joined>> node_1 =
      std::async(std::launch::async, [&] { return join_nodes(other); });
  const auto links = await_nodes(meeting(0));
  ASSERT_FALSE(links.has_value());
  EXPECT_EQ(links.error().code, common::ErrorCode::kConflict);
  const std::string expected =
      "node 1 (127.0.0.1): the manifests differ: spec.train is {\"steps\":20} there and not set on "
      "node 0";
  EXPECT_EQ(links.error().message, expected);
  const auto joined = node_1.get();
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().message, "node 0 refused: " + expected);
}

TEST_F(MeetingTest, AStrangersWordsDoNotDisturbTheMeeting) {
  std::future<common::Result<Joined>> node_1;
  std::future<void> stranger = std::async(std::launch::async, [&] {
    common::Result<NodeLink> link = dial("127.0.0.1", port_.number(), std::chrono::seconds(5));
    while (!link) link = dial("127.0.0.1", port_.number(), std::chrono::seconds(5));
    link->send({{"GET", "/"}});
    while (!link->lost()) link->exchange();
    node_1 = std::async(std::launch::async, [this] { return join_nodes(meeting(1)); });
  });
  const auto links = await_nodes(meeting(0));
  stranger.get();
  EXPECT_TRUE(links.has_value());
  EXPECT_TRUE(node_1.get().has_value());
}

TEST_F(MeetingTest, AbsentNodesAndAnAbsentMasterAreNamed) {
  MeetingOptions options = meeting(0);
  options.patience = std::chrono::milliseconds(0);
  const std::string at = "127.0.0.1:" + std::to_string(port_.number());
  const auto links = await_nodes(options);
  ASSERT_FALSE(links.has_value());
  EXPECT_EQ(links.error().message, "node 1 of 2 did not come to " + at + " within 0 s");
  options.place = place(1);
  const auto joined = join_nodes(options);
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, common::ErrorCode::kUnavailable);
  EXPECT_EQ(joined.error().message,
            "cannot reach node 0 at " + at + " within 0 s: Connection refused");
}

TEST(NodeHelloTest, WhatMustBeEqualIsNamedByField) {
  const NodeHello here = {
      .version = "1",
      .name = "a",
      .spec = {{"train", {{"steps", 10}}}, {"list", {1, 2}}, {"labels", {{"a/b", "x"}}}},
      .inputs = {"corpus=/x"},
      .nodes = 3,
      .node_rank = 0};
  NodeHello there = here;
  there.node_rank = 2;
  EXPECT_FALSE(find_difference(here, there).has_value());
  EXPECT_FALSE(find_difference(here, decode_hello(encode(there)).value()).has_value());
  const auto refused = [&](auto change) {
    NodeHello other = there;
    change(other);
    const std::optional<common::Error> error = find_difference(here, other);
    return error ? error->message : "";
  };
  EXPECT_EQ(refused([](NodeHello& h) { h.version = "2"; }), "it runs lockstep 2, node 0 1");
  EXPECT_EQ(refused([](NodeHello& h) { h.nodes = 2; }), "it was told of 2 nodes, node 0 of 3");
  EXPECT_EQ(refused([](NodeHello& h) { h.node_rank = 3; }), "its rank must be from 1 to 2");
  EXPECT_EQ(refused([](NodeHello& h) { h.node_rank = 0; }), "its rank must be from 1 to 2");
  EXPECT_EQ(refused([](NodeHello& h) { h.name = "b"; }),
            "metadata.name is b there and a on node 0");
  EXPECT_EQ(refused([](NodeHello& h) { h.spec["train"]["steps"] = 20; }),
            "the manifests differ: spec.train.steps is 20 there and 10 on node 0");
  EXPECT_EQ(refused([](NodeHello& h) {
              h.spec["list"] = {1, 2, 3};
            }),
            "the manifests differ: spec.list.2 is 3 there and not set on node 0");
  EXPECT_EQ(refused([](NodeHello& h) { h.spec["list"] = {1}; }),
            "the manifests differ: spec.list.1 is not set there and 2 on node 0");
  EXPECT_EQ(refused([](NodeHello& h) { h.spec["labels"]["a/b"] = "~"; }),
            R"(the manifests differ: spec.labels.a/b is "~" there and "x" on node 0)");
  EXPECT_EQ(refused([](NodeHello& h) { h.spec["labels"]["-"] = 1; }),
            "the manifests differ: spec.labels.- is 1 there and not set on node 0");
  EXPECT_EQ(refused([](NodeHello& h) { h.spec = 3; }).substr(0, 38),
            "the manifests differ: spec is 3 there ");
  EXPECT_EQ(refused([](NodeHello& h) { h.inputs = {}; }),
            "--input is '' there and 'corpus=/x' on node 0");
}

}  // namespace
}  // namespace lockstep::local
