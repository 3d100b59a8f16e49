#include "operator/controller/controller_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/status.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;
using testing::Not;

api::TrainingJob running(const std::string& name) {
  api::TrainingJob job;
  job.meta = {.name = name, .ns = "team"};
  job.status.state = "Running";
  job.status.restarts = 2;
  job.status.goodput = api::Goodput{.productive_seconds = 90, .lost_seconds = 7, .lost_steps = 21};
  return job;
}

TEST(ControllerMetricsTest, JobTellsWhereItsTimeWent) {
  ControllerMetrics metrics(4);
  const std::string text = metrics.text({running("a")});
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Running\"} 1"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_restarts{namespace=\"team\",trainingjob=\"a\"} 2"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_lost_steps{namespace=\"team\",trainingjob=\"a\"} 21"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_phase_seconds{namespace=\"team\",phase=\"productive\","
                              "trainingjob=\"a\"} 90"));
}

// The names and labels of sigs.k8s.io/controller-runtime (pkg/internal/controller/metrics,
// pkg/internal/metrics/workqueue.go): its dashboards find them, before anything has happened too.
TEST(ControllerMetricsTest, SeriesOfControllerRuntimesDashboardsAreThereFromTheStart) {
  const ControllerMetrics metrics(4);
  const std::string text = metrics.text({});
  const std::string controller = "{controller=\"trainingjob\"} ";
  const std::string queue = "{controller=\"trainingjob\",name=\"trainingjob\"} ";
  for (const std::string& series :
       {"controller_runtime_reconcile_errors_total" + controller + "0",
        "controller_runtime_reconcile_time_seconds_count" + controller + "0",
        "controller_runtime_active_workers" + controller + "0",
        "controller_runtime_max_concurrent_reconciles" + controller + "4",
        "workqueue_depth" + queue + "0", "workqueue_adds_total" + queue + "0",
        "workqueue_retries_total" + queue + "0",
        "workqueue_queue_duration_seconds_count" + queue + "0",
        "workqueue_work_duration_seconds_count" + queue + "0",
        "workqueue_unfinished_work_seconds" + queue + "0",
        "workqueue_longest_running_processor_seconds" + queue + "0"}) {
    EXPECT_THAT(text, HasSubstr("\n" + series + "\n"));
  }
  for (const char* result : {"success", "requeue_after", "error"}) {
    EXPECT_THAT(text, HasSubstr(std::string("controller_runtime_reconcile_total{controller="
                                            "\"trainingjob\",result=\"") +
                                result + "\"} 0\n"));
  }
}

TEST(ControllerMetricsTest, CountsRequestsQueueAndReconciles) {
  ControllerMetrics metrics(4);
  metrics.request_observer().on_request("GET", "200", "api:443", std::chrono::seconds(1));
  const kube::QueueObserver queue = metrics.queue_observer();
  queue.on_add();
  queue.on_depth(3);
  queue.on_retry();
  queue.on_get(std::chrono::seconds(1));
  queue.on_done(std::chrono::seconds(1));
  const ControllerMetrics::Clock::time_point begin = ControllerMetrics::Clock::now();
  const auto earlier = begin - std::chrono::hours(1);
  metrics.on_work(earlier);
  metrics.on_work(begin);
  const std::string busy = metrics.text({});
  EXPECT_THAT(busy, HasSubstr("controller_runtime_active_workers{controller=\"trainingjob\"} 2\n"));
  EXPECT_THAT(busy, HasSubstr("workqueue_longest_running_processor_seconds{controller="
                              "\"trainingjob\",name=\"trainingjob\"} 3600"));
  metrics.on_reconcile(ReconcileResult::kError, earlier, begin);
  metrics.on_reconcile(ReconcileResult::kSuccess, begin, begin + std::chrono::seconds(2));
  const std::string text = metrics.text({});
  for (const char* series :
       {"rest_client_requests_total{code=\"200\",host=\"api:443\",method=\"GET\"} 1",
        "rest_client_request_duration_seconds_count{verb=\"GET\"} 1",
        "workqueue_depth{controller=\"trainingjob\",name=\"trainingjob\"} 3",
        "workqueue_adds_total{controller=\"trainingjob\",name=\"trainingjob\"} 1",
        "workqueue_retries_total{controller=\"trainingjob\",name=\"trainingjob\"} 1",
        "workqueue_queue_duration_seconds_sum{controller=\"trainingjob\",name=\"trainingjob\"} 1",
        "workqueue_work_duration_seconds_sum{controller=\"trainingjob\",name=\"trainingjob\"} 1",
        "controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"error\"} 1",
        "controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"success\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"trainingjob\"} 1",
        "controller_runtime_reconcile_time_seconds_sum{controller=\"trainingjob\"} 3602",
        "controller_runtime_active_workers{controller=\"trainingjob\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + series + "\n"));
  }
}

TEST(ControllerMetricsTest, SucceededJobHasNoSeriesButItsEnd) {
  api::TrainingJob job = running("a");
  plan::set_condition(job.status, {.type = plan::kSucceeded, .value = true}, {});
  job.status.state = "Succeeded";
  job.status.completion_time = api::Time(std::chrono::seconds(77));
  ControllerMetrics metrics(4);
  const std::string text = metrics.text({job});
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Succeeded\"} 1"));
  EXPECT_THAT(text, HasSubstr("outcome=\"Succeeded\",reason=\"\",trainingjob=\"a\"} 77\n"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_job_restarts")));
}

TEST(ControllerMetricsTest, OfTheStatesOfAJobOneIsOn) {
  const std::string text = ControllerMetrics(4).text({running("a")});
  const std::string series = "lockstep_job_state{namespace=\"team\",state=\"";
  EXPECT_THAT(text, HasSubstr(series + "Running\",trainingjob=\"a\"} 1\n"));
  for (const char* state :
       {"Queued", "Pending", "Starting", "Restarting", "Suspending", "Suspended", "Invalid"}) {
    EXPECT_THAT(text, HasSubstr(series + state + "\",trainingjob=\"a\"} 0\n"));
  }
}

api::TrainingJob failed(const std::string& name, int64_t at_seconds) {
  api::TrainingJob job = running(name);
  plan::set_condition(job.status, {.type = plan::kFailed, .value = true, .reason = "NonFinite"},
                      {});
  job.status.state = "Failed";
  job.status.completion_time = api::Time(std::chrono::seconds(at_seconds));
  return job;
}

TEST(ControllerMetricsTest, FinishedJobTellsWhenAndHowItEnded) {
  const std::string text = ControllerMetrics(4).text({failed("a", 1234)});
  EXPECT_THAT(text, HasSubstr("lockstep_job_completion_timestamp_seconds{namespace=\"team\","
                              "outcome=\"Failed\",reason=\"NonFinite\",trainingjob=\"a\"} 1234\n"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_job_state")));
}

TEST(ControllerMetricsTest, OfTooManyFinishedJobsTheNewestAreTold) {
  std::vector<api::TrainingJob> jobs;
  for (int i = 0; i < 1002; ++i)
    jobs.push_back(failed(std::string("job-").append(std::to_string(i)), i));
  const std::string text = ControllerMetrics(4).text(jobs);
  EXPECT_THAT(text, HasSubstr("trainingjob=\"job-1001\"} 1001\n"));
  EXPECT_THAT(text, HasSubstr("trainingjob=\"job-2\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("trainingjob=\"job-1\"}")));
}

TEST(ControllerMetricsTest, NumberOfSeriesIsBounded) {
  std::vector<api::TrainingJob> jobs;
  for (int i = 0; i < 1003; ++i)
    jobs.push_back(running(std::string("job-").append(std::to_string(i))));
  ControllerMetrics metrics(4);
  const std::string text = metrics.text(jobs);
  EXPECT_THAT(text, HasSubstr("lockstep_jobs_without_series 3"));
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Running\"} 1003"));
  EXPECT_THAT(text, HasSubstr("trainingjob=\"job-999\""));
  EXPECT_THAT(text, Not(HasSubstr("trainingjob=\"job-1000\"")));
}

}  // namespace
}  // namespace lockstep::control
