#include "runtime/common/env_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "tests/runtime/common/minimal_train.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kPointer = "/communication/env";

Problems problems_of(const json& env) {
  return check_train(with(kPointer, env), 1, "t");
}

TEST(EnvNamesTest, OrdinaryVariablesAreTakenAsTheyAre) {
  const json env = {{"NCCL_IB_DISABLE", "1"}, {"GLOO_SOCKET_IFNAME", "eth1"}, {"_a9", ""}};
  EXPECT_TRUE(problems_of(env).empty());
  EXPECT_TRUE(problems_of(json::object()).empty());
  EXPECT_TRUE(problems_of({{std::string(128, 'A'), std::string(4096, 'v')}}).empty());
}

TEST(EnvNamesTest, WhatTheOperatorSetsIsRefusedByItsPath) {
  std::vector<std::string> names = reserved_env_names();
  names.emplace_back("LOCKSTEP_JOB");
  names.emplace_back("LOCKSTEP_OF_TOMORROW");
  for (const std::string& name : names) {
    const Problems problems = problems_of({{"FINE", "1"}, {name, "1"}});
    ASSERT_EQ(problems.size(), 1U) << name;
    EXPECT_EQ(problems[0].path, "t.communication.env." + name);
    EXPECT_EQ(problems[0].message, name + " is set by the operator itself");
    EXPECT_EQ(problems[0].hint, "remove it");
  }
}

TEST(EnvNamesTest, WhatIsNoNameOrNoStringOrTooMuchIsRefused) {
  for (const std::string name : {"", "9A", "A-B", "A=B", "A B"}) {
    const Problems problems = problems_of({{name, "1"}});
    ASSERT_EQ(problems.size(), 1U) << name;
    EXPECT_THAT(problems[0].message, HasSubstr("names of variables must be letters")) << name;
  }
  EXPECT_EQ(problems_of({{std::string(129, 'A'), "1"}}).size(), 1U);
  EXPECT_EQ(problems_of({{"A", std::string(4097, 'v')}}).size(), 1U);
  for (const json& value : {json(1), json(true), json::array(), json::object()}) {
    const Problems problems = problems_of({{"A", value}});
    ASSERT_EQ(problems.size(), 1U) << value;
    EXPECT_EQ(problems[0].path, "t.communication.env.A");
    EXPECT_THAT(problems[0].message, HasSubstr("must be a string"));
  }
  json many = json::object();
  for (int i = 0; i < 33; ++i) many["A" + std::to_string(i)] = "1";
  ASSERT_EQ(problems_of(many).size(), 1U);
  EXPECT_EQ(problems_of(many)[0].path, "t.communication.env");
  EXPECT_EQ(problems_of(json::array()).size(), 1U);
}

TEST(EnvNamesTest, NcclIsRefusedByNameWithWhatToUse) {
  const Problems problems = check_train(with("/communication/backend", "nccl"), 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "string \"nccl\" is not supported by this version");
  EXPECT_EQ(problems[0].hint, "use one of auto, shared-memory, gloo");
}

}  // namespace
}  // namespace lockstep::common
