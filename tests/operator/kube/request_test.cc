#include "operator/kube/request.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/http_connection.h"

namespace lockstep::kube {
namespace {

using nlohmann::json;

const ResourceType kPods{"", "v1", "pods"};
const ResourceType kJobs{"lockstep.dev", "v1alpha1", "trainingjobs"};

TEST(RequestTest, PathsOfObjectsCollectionsAndSubresources) {
  EXPECT_EQ(url_path({kPods, "ns", "p", ""}), "/api/v1/namespaces/ns/pods/p");
  EXPECT_EQ(url_path({kPods, "ns", "", ""}), "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(url_path({kPods, "", "", ""}), "/api/v1/pods");
  EXPECT_EQ(url_path({kJobs, "ns", "j", "status"}),
            "/apis/lockstep.dev/v1alpha1/namespaces/ns/trainingjobs/j/status");
  EXPECT_EQ(url_path({{"", "v1", "nodes"}, "", "n/../x", ""}), "/api/v1/nodes/n%2F..%2Fx");
}

TEST(RequestTest, PercentEncodingCoversEverythingReserved) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a=b,c!d (e) \xc3\xa9/?&%"),
            "a%3Db%2Cc%21d%20%28e%29%20%C3%A9%2F%3F%26%25");
}

TEST(RequestTest, ListCarriesSelectorsAndPage) {
  EXPECT_EQ(list_request({kPods, "ns", "", ""}, {}).target, "/api/v1/namespaces/ns/pods");
  const HttpRequest request = list_request(
      {kPods, "", "", ""},
      {.label_selector = "a=b", .field_selector = "c!=d", .limit = 500, .continue_token = "x=="});
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.target,
            "/api/v1/pods?labelSelector=a%3Db&fieldSelector=c%21%3Dd&limit=500&continue=x%3D%3D");
}

TEST(RequestTest, WritesAskForStrictValidationAndNameTheManager) {
  const std::string query = "?fieldValidation=Strict&fieldManager=lockstep-operator";
  const json body = {{"metadata", {{"name", "p"}}}};
  const HttpRequest create = create_request({kPods, "ns", "p", ""}, body, "lockstep-operator");
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.target, "/api/v1/namespaces/ns/pods" + query);
  EXPECT_EQ(create.body, R"({"metadata":{"name":"p"}})");
  EXPECT_EQ(create_request({kPods, "ns", "p", "binding"}, body, "lockstep-operator").target,
            "/api/v1/namespaces/ns/pods/p/binding" + query);
  const HttpRequest replace =
      replace_request({kJobs, "ns", "j", "status"}, body, "lockstep-operator");
  EXPECT_EQ(replace.method, "PUT");
  EXPECT_EQ(replace.target,
            "/apis/lockstep.dev/v1alpha1/namespaces/ns/trainingjobs/j/status" + query);
  EXPECT_EQ(replace.content_type, "application/json");
}

TEST(RequestTest, PatchesSayTheirTypeAndApplyForces) {
  const HttpRequest merge =
      patch_request({kPods, "ns", "p", ""}, PatchType::kMerge, json::object(), "m");
  EXPECT_EQ(merge.method, "PATCH");
  EXPECT_EQ(merge.content_type, "application/merge-patch+json");
  EXPECT_EQ(merge.target, "/api/v1/namespaces/ns/pods/p?fieldValidation=Strict&fieldManager=m");
  const HttpRequest apply =
      patch_request({kPods, "ns", "p", ""}, PatchType::kApply, json::object(), "m");
  EXPECT_EQ(apply.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(apply.target,
            "/api/v1/namespaces/ns/pods/p?fieldValidation=Strict&fieldManager=m&force=true");
}

TEST(RequestTest, DeleteCarriesItsOptions) {
  EXPECT_EQ(json::parse(delete_request({kPods, "ns", "p", ""}, {}).body),
            json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions"})"));
  const HttpRequest request = delete_request({kPods, "ns", "p", ""}, {.grace_period_seconds = 0,
                                                                      .uid = "u1",
                                                                      .propagation = "Background",
                                                                      .resource_version = "7"});
  EXPECT_EQ(request.method, "DELETE");
  EXPECT_EQ(request.target, "/api/v1/namespaces/ns/pods/p");
  EXPECT_EQ(json::parse(request.body),
            json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,
                            "preconditions":{"uid":"u1","resourceVersion":"7"},"propagationPolicy":"Background"})"));
}

TEST(RequestTest, OnlyReadsAreRepeatable) {
  EXPECT_FALSE(is_write(get_request({kPods, "ns", "p", ""})));
  EXPECT_FALSE(is_write(watch_request({kPods, "", "", ""}, "watch=true")));
  EXPECT_TRUE(is_write(delete_request({kPods, "ns", "p", ""}, {})));
}

TEST(RequestTest, WatchMayBeSilentUntilItsTimeout) {
  using std::chrono::seconds;
  EXPECT_EQ(watch_read_timeout("watch=true&timeoutSeconds=300"), seconds(305));
  EXPECT_EQ(watch_read_timeout("timeoutSeconds=1&watch=true"), seconds(6));
  EXPECT_EQ(watch_read_timeout("xtimeoutSeconds=9&timeoutSeconds=2"), seconds(7));
  EXPECT_EQ(watch_read_timeout("watch=true"), seconds(65));
}

TEST(ServerUrlTest, PartsOfAcceptedUrls) {
  struct Case {
    std::string url;
    bool tls;
    std::string host;
    int port;
    std::string prefix;
  };
  const std::vector<Case> cases{
      {"https://10.0.0.1:6443", true, "10.0.0.1", 6443, ""},
      {"https://api.example.com", true, "api.example.com", 443, ""},
      {"http://localhost:8080/", false, "localhost", 8080, ""},
      {"https://[fd00::1]:6443", true, "fd00::1", 6443, ""},
      {"https://[fd00::1]", true, "fd00::1", 443, ""},
      {"https://rancher.example.com/k8s/clusters/c-1/", true, "rancher.example.com", 443,
       "/k8s/clusters/c-1"},
  };
  for (const Case& c : cases) {
    const auto url = parse_server_url(c.url);
    ASSERT_TRUE(url.has_value()) << c.url;
    EXPECT_EQ(url->tls, c.tls) << c.url;
    EXPECT_EQ(url->host, c.host) << c.url;
    EXPECT_EQ(url->port, c.port) << c.url;
    EXPECT_EQ(url->prefix, c.prefix) << c.url;
  }
}

TEST(ServerUrlTest, RefusedUrlsAreNamed) {
  for (const char* url :
       {"", "10.0.0.1:6443", "ftp://x", "https://", "https://:6443", "https://x:0",
        "https://x:65536", "https://x:port", "https://[fd00::1", "https://[fd00::1]6443",
        "https://user@x", "https://x?a", "https://x/p?a"}) {
    const auto parsed = parse_server_url(url);
    ASSERT_FALSE(parsed.has_value()) << url;
    EXPECT_EQ(parsed.error().code, common::ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("server '" + std::string(url) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::kube
