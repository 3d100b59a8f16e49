#include "runtime/tracking/mlflow_call.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/mlflow_server/mlflow_server.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using testing::HasSubstr;
using testing::Not;

common::Result<MlflowServer> server_with(const std::map<std::string, std::string>& variables,
                                         const std::string& uri = "http://mlflow:5000/base/") {
  return mlflow_server(uri, [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(MlflowCallTest, WhoAsksIsInTheEnvironment) {
  EXPECT_EQ(server_with({})->authorization, "");
  EXPECT_EQ(server_with({{"MLFLOW_TRACKING_TOKEN", "abc"}})->authorization, "Bearer abc");
  const auto both =
      server_with({{"MLFLOW_TRACKING_USERNAME", "ann"}, {"MLFLOW_TRACKING_PASSWORD", "pass"}});
  EXPECT_EQ(both->authorization, "Basic YW5uOnBhc3M=");
  EXPECT_EQ(both->address.target, "/base");
}

TEST(MlflowCallTest, ASecretThatNoHeaderCarriesIsRefusedAndNotShown) {
  const auto server = server_with({{"MLFLOW_TRACKING_TOKEN", "sec\nret"}});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(server.error().message, HasSubstr("MLFLOW_TRACKING_TOKEN"));
  EXPECT_THAT(server.error().message, Not(HasSubstr("sec")));
}

TEST(MlflowCallTest, AnAddressThatIsNoneIsRefusedByField) {
  for (const char* const uri :
       {"mlflow:5000", "databricks", "http://", "http://a b", "http://h/?q=1"}) {
    const auto server = server_with({}, uri);
    ASSERT_FALSE(server) << uri;
    EXPECT_THAT(server.error().message, HasSubstr("train.logging.mlflow.trackingUri"));
  }
}

class MlflowCallsTest : public testing::Test {
 protected:
  common::Result<nlohmann::json> call(int status, const std::string& body) {
    double_.add_fault({.path = "experiments", .status = status, .body = body});
    return call_mlflow(*server_with({}, double_.url()),
                       {.path = "experiments/get-by-name?experiment_name=Default"}, {});
  }
  support::MlflowServer double_;
};

TEST_F(MlflowCallsTest, ErrorsSayWhetherAnotherTryMayHelp) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_EQ(call(status, "{}").error().code, ErrorCode::kUnavailable) << status;
  }
  EXPECT_EQ(call(401, "{}").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(call(403, "{}").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(call(302, "").error().code, ErrorCode::kInvalidArgument) << "no redirect is followed";
  EXPECT_EQ(call(404, R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})").error().code,
            ErrorCode::kNotFound);
  const auto elsewhere = call(404, "<html>");
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(elsewhere.error().hint, HasSubstr("trackingUri"));
}

TEST_F(MlflowCallsTest, TheServersOwnWordsAreTold) {
  const auto answer = call(400, R"({"error_code": "X", "message": "too long"})");
  EXPECT_THAT(answer.error().message, HasSubstr("answered 400: too long"));
}

TEST_F(MlflowCallsTest, APageThatIsNoAnswerOfMlflowIsRefused) {
  EXPECT_EQ(call(200, "<html>welcome</html>").error().code, ErrorCode::kInvalidArgument);
}

TEST_F(MlflowCallsTest, NobodyThereMayPass) {
  double_.set_down(true);
  EXPECT_EQ(call(0, "").error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::runtime
