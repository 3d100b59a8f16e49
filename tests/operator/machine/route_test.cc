#include "operator/machine/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::machine {
namespace {

using ::testing::HasSubstr;

TEST(RouteTest, ThisMachineIsReachedByItsLoopback) {
  const RouteFacts route = read_route("127.0.0.1");
  EXPECT_EQ(route.master, "127.0.0.1");
  EXPECT_EQ(route.address, "127.0.0.1");
  EXPECT_EQ(route.interface, "lo");
  EXPECT_EQ(route.trouble, "");
}

TEST(RouteTest, ANameThatNobodyKnowsIsTrouble) {
  const RouteFacts route = read_route("no-such-host.invalid");
  EXPECT_THAT(route.trouble, HasSubstr("no-such-host.invalid is not known here"));
  EXPECT_EQ(route.interface, "");
}

}  // namespace
}  // namespace lockstep::machine
