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
      {Backend::kAuto, {"yes", "no such file"}, "", "gloo"},
      {Backend::kAuto, {"none", "none"}, "disk full", "gloo"},
      {Backend::kSharedMemory, {"yes", "yes"}, "", "shared-memory"},
      {Backend::kSharedMemory, {"yes", "no such file"}, "", "refused: rank 1: no such file"},
      {Backend::kSharedMemory, {"none", "none"}, "disk full", "refused: disk full"},
      {Backend::kGloo, {"none", "none"}, "", "gloo"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(choose_backend(row.wanted, row.joined, row.offer_failure), row.expected);
  }
}

}  // namespace
}  // namespace lockstep::runtime
