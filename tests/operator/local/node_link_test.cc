#include "operator/local/node_link.h"

#include <chrono>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/common/loopback_port.h"

namespace lockstep::local {
namespace {

class NodeLinkTest : public testing::Test {
 protected:
  NodeLinkTest() {
    const common::LoopbackPort port;
    common::Result<Socket> listening = listen_at("127.0.0.1", port.number());
    EXPECT_TRUE(listening.has_value());
    common::Result<NodeLink> dialed = dial("127.0.0.1", port.number(), std::chrono::seconds(60));
    EXPECT_TRUE(dialed.has_value());
    here_ = std::move(dialed).value();
    while (!there_) there_ = accept_link(*listening);
  }
  // What comes here until the connection is lost.
  std::vector<nlohmann::json> hear_to_the_end() {
    std::vector<nlohmann::json> all;
    while (!here_->lost()) {
      for (nlohmann::json& message : here_->exchange()) all.push_back(std::move(message));
      usleep(1000);
    }
    return all;
  }
  static nlohmann::json nested(int depth) {
    nlohmann::json value = "[[[";  // no brackets, but text
    for (int i = 0; i < depth; ++i) value = nlohmann::json::array({std::move(value)});
    return {{"value", std::move(value)}};
  }

  std::optional<NodeLink> here_, there_;
};

TEST_F(NodeLinkTest, APeerThatDiesWithUnreadInputClosedItsConnection) {
  there_->send({{"last", "word"}});
  here_->send({{"never", "read"}});
  there_.reset();
  EXPECT_EQ(hear_to_the_end().size(), 1U);
  EXPECT_EQ(here_->lost(), "its connection closed");
}

TEST_F(NodeLinkTest, WhoWritesToADeadPeerIsToldTheSame) {
  there_.reset();
  for (int i = 0; i < 3; ++i) here_->send({{"never", "read"}});
  hear_to_the_end();
  EXPECT_EQ(here_->lost(), "its connection closed");
}

TEST_F(NodeLinkTest, DeepNestingIsNoNodesWord) {
  there_->send(nested(64));
  there_->send(nested(1000));
  there_->send({{"never", "heard"}});
  const std::vector<nlohmann::json> heard = hear_to_the_end();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0], nested(64));
  EXPECT_EQ(here_->lost(), "it sent what no node sends");
}

TEST_F(NodeLinkTest, ALineBeyondTheLimitIsNoNodesWord) {
  here_->limit_lines(1000);
  there_->send({{"text", std::string(900, 'x')}});
  const auto first = [this] {
    while (true) {
      for (const nlohmann::json& message : here_->exchange()) return message;
      usleep(1000);
    }
  };
  EXPECT_EQ(first()["text"].get<std::string>().size(), 900U);
  there_->send({{"text", std::string(1100, 'x')}});
  EXPECT_TRUE(hear_to_the_end().empty());
  EXPECT_EQ(here_->lost(), "it sent what no node sends");
}

}  // namespace
}  // namespace lockstep::local
