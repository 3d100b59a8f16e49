// The verbs against the API server in memory, over a real connection.
#include "operator/cli/cluster_verbs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/exit_status.h"
#include "operator/cli/job_table.h"
#include "operator/kube/http_client.h"
#include "tests/operator/cli/log_client.h"
#include "tests/operator/controller/fake_api_server.h"
#include "tests/operator/controller/operator_run.h"
#include "tests/operator/controller/served_api.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::unique_ptr<kube::Client> client_of(const std::string& url) {
  kube::ClientConfig config;
  config.server = url;
  return std::move(kube::make_http_client(config, {})).value();
}

class ClusterVerbsTest : public ::testing::Test {
 protected:
  Session session() { return {*client_, "default", api_.url(), out_, err_}; }
  std::string take_out() {
    const std::string text = out_.str();
    out_.str("");
    return text;
  }
  json spec() const { return server_.object("trainingjobs", control::kDemo)->at("spec"); }

  control::FakeApiServer server_;
  control::ServedApi api_{server_};
  const std::unique_ptr<kube::Client> client_ = client_of(api_.url());
  std::ostringstream out_, err_;
};

TEST_F(ClusterVerbsTest, GetListsJobsAsKubectlDoes) {
  EXPECT_EQ(get_jobs({}, session()), kOk);
  EXPECT_EQ(err_.str(), "No TrainingJobs found in namespace default.\n");
  json job = control::demo_job(2);
  job["status"] = {{"state", "Running"}, {"restarts", 1}};
  server_.add("trainingjobs", job);
  EXPECT_EQ(get_jobs({}, session()), kOk);
  EXPECT_THAT(take_out(), MatchesRegex("NAME +STATE +STEP .*\ndemo +Running +<none> .*\n"));
  EXPECT_EQ(get_jobs({.form = OutputForm::kName}, session()), kOk);
  EXPECT_EQ(take_out(), "trainingjob.lockstep.dev/demo\n");
  EXPECT_EQ(get_jobs({.names = {"demo"}, .form = OutputForm::kJson}, session()), kOk);
  EXPECT_EQ(json::parse(take_out())["spec"]["ranks"], 2);
  EXPECT_EQ(get_jobs({.form = OutputForm::kJson}, session()), kOk);
  const json list = json::parse(take_out());
  EXPECT_EQ(list["kind"], "List");
  EXPECT_EQ(list["items"][0]["kind"], "TrainingJob");
  EXPECT_EQ(get_jobs({.names = {"demo"}, .form = OutputForm::kYaml}, session()), kOk);
  EXPECT_THAT(take_out(), HasSubstr("kind: TrainingJob\n"));
}

TEST_F(ClusterVerbsTest, AWrongNameIsOneClearErrorOfEveryVerb) {
  const std::string expected =
      "error: there is no TrainingJob \"nope\" in namespace \"default\" (lockstep get -n default "
      "lists them, lockstep get -A all)\n";
  const auto expect = [&](int status) {
    EXPECT_EQ(status, kNoSuchJob);
    EXPECT_EQ(err_.str(), expected);
    EXPECT_EQ(out_.str(), "");
    err_.str("");
  };
  expect(get_jobs({.names = {"nope"}}, session()));
  expect(describe_job({.name = "nope"}, session()));
  expect(list_events({.name = "nope"}, session()));
  expect(print_logs({.name = "nope"}, session()));
  expect(suspend_jobs({.names = {"nope"}}, session()));
  expect(resume_jobs({.names = {"nope"}}, session()));
  expect(scale_jobs({.names = {"nope"}, .ranks = 2}, session()));
  expect(delete_jobs({.names = {"nope"}}, session()));
}

TEST_F(ClusterVerbsTest, OneWrongNameAmongSeveralDoesNotKeepTheOthersBack) {
  server_.add("trainingjobs", control::demo_job(2));
  EXPECT_EQ(suspend_jobs({.names = {"nope", "demo"}}, session()), kNoSuchJob);
  EXPECT_EQ(take_out(), "trainingjob.lockstep.dev/demo suspended\n");
  EXPECT_EQ(spec()["suspend"], true);
}

TEST_F(ClusterVerbsTest, SuspendResumeScaleAndDeleteChangeTheJob) {
  server_.add("trainingjobs", control::demo_job(2));
  EXPECT_EQ(suspend_jobs({.names = {"demo"}}, session()), kOk);
  EXPECT_EQ(spec()["suspend"], true);
  EXPECT_EQ(resume_jobs({.names = {"demo"}}, session()), kOk);
  EXPECT_EQ(spec()["suspend"], false);
  EXPECT_EQ(scale_jobs({.names = {"demo"}, .ranks = 4}, session()), kOk);
  EXPECT_EQ(spec()["ranks"], 4);
  EXPECT_EQ(delete_jobs({.names = {"demo"}}, session()), kOk);
  EXPECT_EQ(server_.objects("trainingjobs").size(), 0U);
  EXPECT_THAT(take_out(), HasSubstr("trainingjob.lockstep.dev/demo scaled to 4\n"));
}

TEST_F(ClusterVerbsTest, SubmitChecksFirstThenCreates) {
  const std::string file = ::testing::TempDir() + "submitted.yaml";
  std::ofstream(file) << control::demo_job(2).dump();
  EXPECT_EQ(submit_job({.file = file, .sets = {"ranks=3"}}, session()), kOk) << err_.str();
  EXPECT_EQ(take_out(), "trainingjob.lockstep.dev/demo created\n");
  EXPECT_EQ(spec()["ranks"], 3);
  EXPECT_EQ(submit_job({.file = file}, session()), kConflict);
  EXPECT_THAT(err_.str(), StartsWith("error: there is a TrainingJob \"demo\" in namespace "
                                     "\"default\" already"));
  EXPECT_EQ(submit_job({.file = file, .sets = {"rank=3"}}, session()), kInvalidFile);
  EXPECT_EQ(submit_job({.file = file + ".not"}, session()), kInvalidFile);
  SubmitArguments elsewhere{.file = file};
  elsewhere.cluster.ns = "team";
  Session there{*client_, "team", api_.url(), out_, err_};
  EXPECT_EQ(submit_job(elsewhere, there), kUsage) << "the manifest names another namespace";
  EXPECT_EQ(server_.objects("trainingjobs").size(), 1U);
}

TEST_F(ClusterVerbsTest, DescribeSaysWhyAndEventsAreOfTheJobAlone) {
  json job = control::demo_job(2);
  const json condition = {{"type", "Suspended"}, {"status", "True"}, {"reason", "Suspended"}};
  job["status"] = {{"state", "Suspended"}, {"conditions", json::array({condition})}};
  server_.add("trainingjobs", job);
  EXPECT_EQ(describe_job({.name = "demo"}, session()), kOk);
  const std::string text = take_out();
  EXPECT_THAT(text, HasSubstr("It is suspended.\nWhy:\n  spec.suspend is true"));
  EXPECT_THAT(text, HasSubstr("What to do:\n  lockstep resume demo -n default\n"));
  EXPECT_EQ(describe_job({.name = "demo", .form = OutputForm::kJson}, session()), kOk);
  EXPECT_EQ(json::parse(take_out())["headline"], "suspended");

  for (const char* name : {"demo", "other"}) {
    server_.add("events", {{"metadata", {{"name", name}, {"namespace", "default"}}},
                           {"involvedObject", {{"kind", "TrainingJob"}, {"name", name}}},
                           {"type", "Normal"},
                           {"reason", "Suspended"},
                           {"message", std::string("about ") + name}});
  }
  EXPECT_EQ(list_events({.name = "demo"}, session()), kOk);
  EXPECT_THAT(take_out(), MatchesRegex("LAST SEEN .*\n.*trainingjob/demo +about demo\n"));
}

// Two lines of every pod's log.
struct PodLogs {
  std::vector<std::string> asked;
  std::string broken;  // the pod whose node does not answer

  std::optional<kube::ApiError> stream(const kube::ResourcePath& path, const std::string& query,
                                       const std::function<bool(std::string_view)>& on_line) {
    asked.push_back(path.name + "/" + path.subresource + "?" + query);
    if (path.name == broken) {
      return control::refusal(common::ErrorCode::kUnavailable, 500, "the node is away");
    }
    on_line("first of " + path.name);
    on_line("second of " + path.name);
    return std::nullopt;
  }
};

TEST_F(ClusterVerbsTest, LogsOfAllRanksArePrefixedAndTheFirstFailingRankComesFirst) {
  json job = control::demo_job(3);
  job["status"] = {{"attempt", 0}, {"firstFailure", {{"attempt", 0}, {"rank", 2}}}};
  server_.add("trainingjobs", job);
  for (int rank = 0; rank < 3; ++rank) {
    server_.add("pods", {{"metadata",
                          {{"name", "demo-0-" + std::to_string(rank)},
                           {"namespace", "default"},
                           {"labels", {{"lockstep.dev/job-name", "demo"}}}}}});
  }
  PodLogs logs;
  LogClient client(server_, std::bind_front(&PodLogs::stream, &logs));
  const Session there{client, "default", "", out_, err_};
  EXPECT_EQ(print_logs({.name = "demo", .all_ranks = true, .tail = 5}, there), kOk);
  EXPECT_EQ(take_out(),
            "[rank 2] first of demo-0-2\n[rank 2] second of demo-0-2\n"
            "[rank 0] first of demo-0-0\n[rank 0] second of demo-0-0\n"
            "[rank 1] first of demo-0-1\n[rank 1] second of demo-0-1\n");
  EXPECT_EQ(logs.asked.front(), "demo-0-2/log?container=trainer&tailLines=5");
  EXPECT_EQ(print_logs({.name = "demo"}, there), kOk);
  EXPECT_EQ(take_out(), "first of demo-0-2\nsecond of demo-0-2\n");
  EXPECT_EQ(print_logs({.name = "demo", .attempt = 7}, there), kNoSuchJob);
  EXPECT_THAT(err_.str(), HasSubstr("no pod of that rank and attempt"));
  logs.broken = "demo-0-2";
  EXPECT_EQ(print_logs({.name = "demo", .all_ranks = true}, there), kUnreachable);
  EXPECT_THAT(take_out(), StartsWith("[rank 0] first")) << "the others' logs are printed";
}

TEST(ClusterSessionTest, AServerThatIsAwayIsNamed) {
  std::string url;
  {
    control::FakeApiServer server;
    url = control::ServedApi(server).url();
  }
  std::ostringstream out, err;
  const auto client = client_of(url);
  EXPECT_EQ(get_jobs({}, {*client, "default", url, out, err}), kUnreachable);
  EXPECT_THAT(err.str(), StartsWith("error: the API server at " + url + " does not answer: "));
}

TEST(ClusterSessionTest, RefusalsHaveAStatusAndARemedy) {
  const struct {
    common::ErrorCode code;
    int http_status;
    const char* message;
    int status;
    const char* text;
  } cases[] = {
      {common::ErrorCode::kPermissionDenied, 401, "Unauthorized", kForbidden, "log in again"},
      {common::ErrorCode::kPermissionDenied, 403, "User x cannot", kForbidden,
       "you may not get trainingjobs in namespace \"ns\": User x cannot"},
      {common::ErrorCode::kNotFound, 404, "the server could not find the requested resource",
       kNoSuchJob, "the cluster has no TrainingJobs"},
      {common::ErrorCode::kNotFound, 404, "not found", kNoSuchJob, "no TrainingJob \"demo\""},
      {common::ErrorCode::kAlreadyExists, 409, "exists", kConflict, "already"},
      {common::ErrorCode::kConflict, 409, "modified", kConflict, "try again"},
      {common::ErrorCode::kInvalidArgument, 422, "spec.ranks: no", kInvalidFile, "spec.ranks: no"},
      {common::ErrorCode::kUnavailable, 503, "busy", kUnreachable, "cannot do this now: busy"},
      {common::ErrorCode::kUnavailable, 0, "GET /x: no answer: refused", kUnreachable,
       "does not answer: refused"}};
  for (const auto& one : cases) {
    const kube::ApiError error{{one.code, one.message, ""}, one.http_status, "", std::nullopt};
    const Complaint said =
        explain_refusal(error, {.verb = "get", .name = "demo"}, "ns", "https://there");
    EXPECT_EQ(said.status, one.status) << one.message;
    EXPECT_THAT(said.text, HasSubstr(one.text));
    EXPECT_EQ(said.text.find('\n'), std::string::npos);
  }
}

TEST(CommandNameTest, IsKubectlsWhereKubectlRunsIt) {
  EXPECT_EQ(command_name("/usr/bin/kubectl-lockstep"), "kubectl lockstep");
  EXPECT_EQ(command_name("kubectl-lockstep"), "kubectl lockstep");
  EXPECT_EQ(command_name("/opt/kubectl-lockstep/lockstep"), "lockstep");
}

TEST(JobTableTest, ColumnsAreAsWideAsTheirWidestText) {
  EXPECT_EQ(render_table({{"A", "B"}, {"long", ""}, {"x", "y"}}), "A      B\nlong   \nx      y\n");
}

}  // namespace
}  // namespace lockstep::cli
