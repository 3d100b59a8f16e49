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
  ControllerMetrics metrics;
  const std::string text = metrics.text({running("a")});
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Running\"} 1"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_restarts{job=\"a\",namespace=\"team\"} 2"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_lost_steps{job=\"a\",namespace=\"team\"} 21"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_phase_seconds{job=\"a\",namespace=\"team\","
                              "phase=\"productive\"} 90"));
}

TEST(ControllerMetricsTest, FinishedJobHasNoSeriesOfItsOwn) {
  api::TrainingJob job = running("a");
  plan::set_condition(job.status, {.type = plan::kSucceeded, .value = true}, {});
  job.status.state = "Succeeded";
  ControllerMetrics metrics;
  const std::string text = metrics.text({job});
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Succeeded\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_job_restarts")));
}

TEST(ControllerMetricsTest, NumberOfSeriesIsBounded) {
  std::vector<api::TrainingJob> jobs;
  for (int i = 0; i < 1003; ++i)
    jobs.push_back(running(std::string("job-").append(std::to_string(i))));
  ControllerMetrics metrics;
  const std::string text = metrics.text(jobs);
  EXPECT_THAT(text, HasSubstr("lockstep_jobs_without_series 3"));
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"Running\"} 1003"));
  EXPECT_THAT(text, HasSubstr("job=\"job-999\""));
  EXPECT_THAT(text, Not(HasSubstr("job=\"job-1000\"")));
}

}  // namespace
}  // namespace lockstep::control
