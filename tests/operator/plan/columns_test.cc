// What `kubectl get trainingjobs` shows of a job in every state of its life.
#include <optional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "operator/api/codec.h"
#include "operator/api/crd.h"
#include "operator/plan/plan.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// The cells of the columns of status, as kubectl fills them: "-" for what is not there.
//   wide: those of `-o wide` too.
std::string row_of(const api::TrainingJobStatus& status, bool wide = false) {
  const json object = {{"status", api::encode_status(status)}};
  std::string row;
  const json version = api::crd()["spec"]["versions"][0];
  for (const json& column : version["additionalPrinterColumns"]) {
    if (column.value("priority", 0) > 0 && !wide) continue;
    std::string path = column["jsonPath"];
    if (path.starts_with(".metadata")) continue;
    for (char& c : path) c = c == '.' ? '/' : c;
    const json::json_pointer pointer(path);
    std::string cell = "-";
    if (object.contains(pointer)) {
      const json& value = object[pointer];
      cell = value.is_string() ? value.get<std::string>() : value.dump();
    }
    row += (row.empty() ? "" : " ") + cell;
  }
  return row;
}

ModelCluster training() {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.seen.strategy = "zero3";
  cluster.seen.progress = api::ProgressStatus{.step = 7,
                                              .total_steps = 100,
                                              .loss = "2.5000",
                                              .tokens_per_second = 900,
                                              .eta_seconds = 60,
                                              .last_checkpoint_step = 5,
                                              .last_update_time = kStart};
  cluster.settle();
  return cluster;
}

TEST(ColumnsTest, AJobThatWaitsAndStartsHasNoNumbersYet) {
  ModelCluster cluster(training_job(2));
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Pending - - - - 0");
  cluster.pod(0).phase = PodPhase::kRunning;
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Starting - - - - 0");
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Running - - - - 0");
}

TEST(ColumnsTest, AJobThatTrainsShowsHowFarItIs) {
  const ModelCluster cluster = training();
  EXPECT_EQ(row_of(cluster.job.status), "Running 7/100 2.5000 900 1m 0");
  EXPECT_EQ(row_of(cluster.job.status, true), "Running 7/100 2.5000 900 1m 0 2/2 zero3 5 -");
}

TEST(ColumnsTest, AJobThatStandsStillKeepsItsStepAndHasNoSpeed) {
  ModelCluster cluster = training();
  cluster.job.spec.suspend = true;
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Suspending 7/100 2.5000 900 1m 0");
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Suspended 7/100 2.5000 - - 0");
  cluster.job.spec.suspend = false;
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Pending 7/100 2.5000 - - 0");
}

TEST(ColumnsTest, AJobThatRestartsCountsIt) {
  ModelCluster cluster = training();
  cluster.end(0, 70);
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Restarting 7/100 2.5000 - - 1");
}

TEST(ColumnsTest, AJobThatEndedSaysHow) {
  ModelCluster failed = training();
  failed.end(1, 66);
  failed.settle();
  EXPECT_EQ(row_of(failed.job.status), "Failed 7/100 2.5000 - - 0");
  ModelCluster done = training();
  done.end(0, 0);
  done.end(1, 0);
  done.settle();
  EXPECT_EQ(row_of(done.job.status), "Succeeded 100/100 2.5000 900 0s 0");
}

TEST(ColumnsTest, AJobThatIsRefusedSaysSo) {
  api::TrainingJob job = training_job(2);
  job.spec.ranks = 3;
  ModelCluster cluster(job);
  cluster.settle();
  EXPECT_EQ(row_of(cluster.job.status), "Invalid - - - - 0");
}

}  // namespace
}  // namespace lockstep::plan
