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
  EXPECT_THAT(text, HasSubstr("lockstep_job_restarts{job=\"a\",namespace=\"team\"} 2"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_lost_steps{job=\"a\",namespace=\"team\"} 21"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_phase_seconds{job=\"a\",namespace=\"team\","
                              "phase=\"productive\"} 90"));
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

TEST(ControllerMetricsTest, FinishedJobHasNoSeriesOfItsOwn) {
  api::TrainingJob job = running("a");
  plan::set_condition(job.status, {.type = plan::kSucceeded, .value = true}, {});
  job.status.state = "Succeeded";
  ControllerMetrics metrics(4);
  const std::string text = metrics.text({job});
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Succeeded\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_job_restarts")));
}

TEST(ControllerMetricsTest, NumberOfSeriesIsBounded) {
  std::vector<api::TrainingJob> jobs;
  for (int i = 0; i < 1003; ++i)
    jobs.push_back(running(std::string("job-").append(std::to_string(i))));
  ControllerMetrics metrics(4);
  const std::string text = metrics.text(jobs);
  EXPECT_THAT(text, HasSubstr("lockstep_jobs_without_series 3"));
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Running\"} 1003"));
  EXPECT_THAT(text, HasSubstr("job=\"job-999\""));
  EXPECT_THAT(text, Not(HasSubstr("job=\"job-1000\"")));
}

}  // namespace
}  // namespace lockstep::control
