#include "operator/controller/refusal.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using common::Error;
using common::ErrorCode;

TEST(RefusalTest, NamesTheLabelThatSetsAPodSecurityLevelAfterTheServersWords) {
  const std::string words =
      "pods \"demo-0-0\" is forbidden: violates PodSecurity \"restricted:latest\": unrestricted "
      "capabilities (container \"trainer\" must not include \"IPC_LOCK\" in "
      "securityContext.capabilities.add)";
  const Refusal refusal = explain_refusal(Error{ErrorCode::kPermissionDenied, words, ""}, "team");
  EXPECT_EQ(refusal.reason, "PodSecurity");
  EXPECT_EQ(refusal.message,
            words +
                "; that level is set by the label pod-security.kubernetes.io/enforce of "
                "namespace team, or by the cluster's default");
}

TEST(RefusalTest, LeavesOtherWordsOfTheServerAsTheyAre) {
  for (const char* words : {"pods \"a\" is forbidden: exceeded quota: q",
                            "strict decoding error: unknown field \"spec.containers[0].bogus\""}) {
    const Refusal refusal = explain_refusal(Error{ErrorCode::kInvalidArgument, words, ""}, "team");
    EXPECT_EQ(refusal.reason, "CreationRefused");
    EXPECT_EQ(refusal.message, words);
  }
}

TEST(RefusalTest, TroubleThatPassesIsNoRefusal) {
  EXPECT_TRUE(is_refusal(Error{ErrorCode::kPermissionDenied, "", ""}));
  EXPECT_TRUE(is_refusal(Error{ErrorCode::kInvalidArgument, "", ""}));
  EXPECT_FALSE(is_refusal(Error{ErrorCode::kUnavailable, "", ""}));
  EXPECT_FALSE(is_refusal(Error{ErrorCode::kConflict, "", ""}));
}

}  // namespace
}  // namespace lockstep::control
