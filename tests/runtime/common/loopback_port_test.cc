#include "runtime/common/loopback_port.h"

#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/http_server.h"

namespace lockstep::common {
namespace {

TEST(LoopbackPortTest, AServerListensOnItWhileItIsReserved) {
  const LoopbackPort port;
  const auto first = HttpServer::start({.address = "127.0.0.1", .port = port.number()});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = HttpServer::start({.address = "127.0.0.1", .port = port.number()});
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
}

// The system chooses among some 28,000 ports: a port that is only remembered would come again.
TEST(LoopbackPortTest, NobodyElseIsGivenIt) {
  std::vector<LoopbackPort> reserved(200);
  std::set<int> numbers;
  for (const LoopbackPort& port : reserved) numbers.insert(port.number());
  EXPECT_EQ(numbers.size(), reserved.size());
  for (int round = 0; round < 20'000; ++round) {
    ASSERT_FALSE(numbers.contains(LoopbackPort().number())) << "round " << round;
  }
}

TEST(LoopbackPortTest, IsFreeAgainAfterItsEnd) {
  LoopbackPort port;
  const int number = port.number();
  LoopbackPort moved = std::move(port);
  EXPECT_EQ(moved.number(), number);
  moved = LoopbackPort();
  EXPECT_TRUE(HttpServer::start({.address = "127.0.0.1", .port = number}));
}

}  // namespace
}  // namespace lockstep::common
