#include "operator/local/localize.h"

#include <gtest/gtest.h>

namespace lockstep::local {
namespace {

api::TrainingJob job_with_input() {
  api::TrainingJob job;
  job.meta.name = "demo";
  job.spec.inputs = {{{"name", "corpus"}, {"mountPath", "/data"}}};
  job.spec.train = {{"data", {{"train", "/data/books/*.txt"}}}, {"steps", 3}};
  return job;
}

TEST(LocalizeTest, MovesPathsBelowTheMountOfANamedInput) {
  common::Problems problems;
  const api::TrainingJob job =
      localize(job_with_input(), {{"corpus", "/home/me/corpus"}}, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(job.spec.train["data"]["train"], "/home/me/corpus/books/*.txt");
  EXPECT_EQ(job.spec.train["steps"], 3);
}

TEST(LocalizeTest, LeavesAPathThatOnlySharesItsBeginningWithTheMount) {
  api::TrainingJob given = job_with_input();
  given.spec.train["data"]["train"] = "/database/x.txt";
  common::Problems problems;
  EXPECT_EQ(localize(given, {{"corpus", "/c"}}, problems).spec.train["data"]["train"],
            "/database/x.txt");
}

TEST(LocalizeTest, InputThatTheManifestLacksIsAProblemThatNamesIt) {
  common::Problems problems;
  localize(job_with_input(), {{"corpse", "/c"}}, problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].message.find("corpse"), std::string::npos);
}

TEST(LocalizeTest, TellsWhatOfATemplateMeansNothingToProcesses) {
  const nlohmann::json pod_template = nlohmann::json::parse(R"({
      "metadata": {"labels": {"a": "b"}},
      "spec": {"nodeSelector": {"a": "b"}, "containers": [
          {"name": "side"},
          {"name": "trainer", "command": ["a"], "args": ["b"], "tty": true,
           "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}]}]}})");
  EXPECT_EQ(without_effect_here(pod_template),
            (std::vector<std::string>{"spec.template.metadata", "spec.template.spec.containers[0]",
                                      "spec.template.spec.containers[1].env[1].valueFrom",
                                      "spec.template.spec.containers[1].tty",
                                      "spec.template.spec.nodeSelector"}));
  EXPECT_TRUE(without_effect_here(nlohmann::json()).empty());
}

TEST(LocalizeTest, OutputDefaultsToAFolderNamedAfterTheJob) {
  EXPECT_EQ(default_output(job_with_input()), "runs/demo");
}

}  // namespace
}  // namespace lockstep::local
