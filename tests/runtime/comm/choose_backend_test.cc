#include "runtime/comm/choose_backend.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using Backend = common::CommunicationConfig::Backend;

TEST(ChooseBackendTest, FollowsTheTable) {
  struct Row {
    Backend wanted;
    std::vector<std::string> joined;
    std::string offer_failure;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {Backend::kAuto, {"yes", "yes"}, "", "shared-memory"},
      {Backend::kAuto, {"yes", "no such file"}, "", "gloo: rank 1: no such file"},
      {Backend::kAuto, {"none", "none"}, "disk full", "gloo: disk full"},
      {Backend::kSharedMemory, {"yes", "yes"}, "", "shared-memory"},
      {Backend::kSharedMemory, {"yes", "no such file"}, "", "refused: rank 1: no such file"},
      {Backend::kSharedMemory, {"none", "none"}, "disk full", "refused: disk full"},
      {Backend::kGloo, {"none", "none"}, "", "gloo: asked for"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(choose_backend(row.wanted, row.joined, row.offer_failure), row.expected);
  }
}

TEST(GroupHostsTest, FollowsTheTable) {
  struct Row {
    std::vector<int> leaders;
    int expected;
    std::string reason;
  };
  const std::string consecutive =
      " is not on the host of the ranks before it: two levels need consecutive ranks";
  const std::string unlike = " sees other files in shared memory than the ranks beside it";
  const std::vector<Row> rows = {
      {{0, 0, 2, 2}, 2, "2 hosts of 2 ranks that share memory"},
      {{0, 0, 0, 3, 3, 3, 6, 6, 6}, 3, "3 hosts of 3 ranks that share memory"},
      {{0, 0, 0, 0}, 4, "all ranks share memory"},
      {{0, 1, 2, 3}, 1, "no two ranks share memory"},
      {{0, 0, 0, 3}, 1, "hosts hold 3 and 1 ranks: two levels need as many on each"},
      {{0, 1, 1, 1}, 1, "hosts hold 1 and 3 ranks: two levels need as many on each"},
      {{0, 1, 0, 1}, 1, "rank 1" + consecutive},
      {{0, 1, 1, 0}, 1, "rank 1" + consecutive},
      {{0, 0, 1, 3}, 1, "rank 2" + unlike},  // sees rank 1, which sees rank 0
      {{0, 2, 2, 2}, 1, "rank 1" + unlike},
      {{0, -1}, 1, "rank 1" + unlike},
  };
  for (const Row& row : rows) {
    const HostGrouping found = group_hosts(row.leaders);
    EXPECT_EQ(found.ranks_per_host, row.expected) << row.reason;
    EXPECT_EQ(found.reason, row.reason);
  }
}

}  // namespace
}  // namespace lockstep::runtime
