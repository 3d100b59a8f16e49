#include "operator/kube/api_error.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using std::chrono::seconds;

struct Case {
  std::string name;
  std::string method;
  int http_status;
  std::string body;
  ErrorCode code;
  std::string message;
};

std::string status(int code, const std::string& reason, const std::string& message) {
  return nlohmann::json{{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
                        {"reason", reason}, {"message", message}, {"code", code}}
      .dump();
}

// Messages are wire samples of kube-apiserver 1.20.2 and 1.36.4.
const std::vector<Case> kCases{
    {"exists", "POST", 409, status(409, "AlreadyExists", "configmaps \"a\" already exists"),
     ErrorCode::kAlreadyExists, "configmaps \"a\" already exists"},
    {"stale version", "PUT", 409,
     status(409, "Conflict",
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; "
            "please apply your changes to the latest version and try again"),
     ErrorCode::kConflict,
     "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please "
     "apply your changes to the latest version and try again"},
    {"precondition", "DELETE", 409,
     status(409, "Conflict",
            "the UID in the precondition (x) does not match the UID in record (f10f)"),
     ErrorCode::kConflict,
     "the UID in the precondition (x) does not match the UID in record (f10f)"},
    {"other manager", "PATCH", 409,
     status(409, "Conflict", "Apply failed with 1 conflict: conflict with \"m1\": .data.x"),
     ErrorCode::kConflict, "Apply failed with 1 conflict: conflict with \"m1\": .data.x"},
    {"expired", "GET", 410, status(410, "Expired", "too old"), ErrorCode::kGone, "too old"},
    {"gone", "GET", 410, status(410, "Gone", "gone"), ErrorCode::kGone, "gone"},
    {"bad continue", "GET", 400, status(400, "BadRequest", "invalid continue token"),
     ErrorCode::kInvalidArgument, "invalid continue token"},
    {"schema", "POST", 422, status(422, "Invalid", "spec: Invalid value: failed rule: self.n < 10"),
     ErrorCode::kInvalidArgument, "spec: Invalid value: failed rule: self.n < 10"},
    {"generateName clash", "POST", 500, status(500, "ServerTimeout", "please try again."),
     ErrorCode::kUnavailable, "please try again."},
    {"not yet", "GET", 504,
     status(504, "Timeout", "Timeout: Too large resource version: 99999999, current: 734"),
     ErrorCode::kUnavailable, "Timeout: Too large resource version: 99999999, current: 734"},
    {"credentials", "GET", 401, status(401, "Unauthorized", "Unauthorized"),
     ErrorCode::kPermissionDenied, "Unauthorized"},
    {"rights", "GET", 403, status(403, "Forbidden", "no"), ErrorCode::kPermissionDenied, "no"},
    {"absent", "GET", 404, status(404, "NotFound", "none"), ErrorCode::kNotFound, "none"},
    {"reason beats code", "GET", 500, status(500, "NotFound", "none"), ErrorCode::kNotFound,
     "none"},
    {"unknown reason", "GET", 404, status(404, "Brandnew", "x"), ErrorCode::kNotFound, "x"},
    {"no Status on POST", "POST", 409, "", ErrorCode::kAlreadyExists, "HTTP 409"},
    {"no Status on PUT", "PUT", 409, "oops", ErrorCode::kConflict, "HTTP 409: oops"},
    {"proxy's page", "GET", 502, "<html>", ErrorCode::kUnavailable, "HTTP 502: <html>"},
    {"redirect", "GET", 302, "", ErrorCode::kInternal, "HTTP 302"},
    {"array", "GET", 400, "[1]", ErrorCode::kInvalidArgument, "HTTP 400: [1]"},
    {"odd types", "GET", 404, R"({"kind":"Status","reason":7,"message":[],"details":"x"})",
     ErrorCode::kNotFound, "HTTP 404"},
};

TEST(ApiErrorTest, ReasonDecidesFirstAndTheCodeWhereItSaysNothing) {
  for (const Case& c : kCases) {
    const ApiError error = decode_error({c.method, "/x", "", ""}, {c.http_status, "", c.body});
    EXPECT_EQ(error.error.code, c.code) << c.name;
    EXPECT_EQ(error.error.message, c.message) << c.name;
    EXPECT_EQ(error.http_status, c.http_status) << c.name;
  }
}

TEST(ApiErrorTest, RetryAfterComesFromTheHeaderOrTheDetails) {
  const HttpRequest get{"GET", "/x", "", ""};
  EXPECT_EQ(decode_error(get, {429, "5", ""}).retry_after, seconds(5));
  EXPECT_EQ(decode_error(get, {429, "soon", ""}).retry_after, std::nullopt);
  EXPECT_EQ(decode_error(get, {429, "", ""}).retry_after, std::nullopt);
  const std::string details =
      R"({"kind":"Status","reason":"Timeout","details":{"retryAfterSeconds":1},"code":504})";
  EXPECT_EQ(decode_error(get, {504, "", details}).retry_after, seconds(1));
  EXPECT_EQ(decode_error(get, {504, "3", details}).retry_after, seconds(3));
  // 292 million years would be more milliseconds than fit in 64 bits.
  const std::string ages =
      R"({"kind":"Status","details":{"retryAfterSeconds":9223372036854775},"code":429})";
  EXPECT_EQ(decode_error(get, {429, "", ages}).retry_after, seconds(3600));
  EXPECT_EQ(decode_error(get, {429, "9223372036854775", ""}).retry_after, seconds(3600));
}

TEST(ApiErrorTest, NoAnswerToAWriteIsAnUnknownOutcome) {
  const ApiError read = no_answer({"GET", "/x", "", ""}, "reset");
  EXPECT_EQ(read.http_status, 0);
  EXPECT_EQ(read.error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(read.error.message, "GET /x: no answer: reset");
  EXPECT_EQ(read.error.hint, "");
  EXPECT_NE(no_answer({"POST", "/x", "", ""}, "reset").error.hint.find("unknown"),
            std::string::npos);
}

// A proxy's page may be in any encoding, and be quoted in a status, which is JSON.
TEST(ApiErrorTest, QuotesABodyAsTextThatJsonCanCarry) {
  const HttpRequest get{"GET", "/api/v1/pods", "", ""};
  EXPECT_EQ(decode_error(get, {502, "",
                               "\xFC"
                               "berlastet"})
                .error.message,
            "HTTP 502: \xEF\xBF\xBD"
            "berlastet");
  std::string body(196, 'x');
  std::string cut = "HTTP 502: ";
  cut.append(body).append("...");
  body.append("\xC3\xA9\xC3\xA9\xC3\xA9");
  EXPECT_EQ(decode_error(get, {502, "", body}).error.message, cut);
}

}  // namespace
}  // namespace lockstep::kube
