#include "operator/api/gang_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::api {
namespace {

using nlohmann::json;

json spec_with(const char* scheduler, const json& pod_template) {
  return {{"scheduling", {{"gangScheduler", scheduler}}}, {"template", pod_template}};
}

std::vector<std::string> problems_of(const json& spec) {
  std::vector<std::string> lines;
  for (const common::Problem& problem : check_gang(spec)) {
    lines.push_back(problem.path + ": " + problem.message);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(GangCheckTest, GroupOfANamedSchedulerIsTheOperators) {
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"metadata", {{"labels", {{"scheduling.x-k8s.io/pod-group", "mine"}}}}}},
       "spec.template.metadata.labels[scheduling.x-k8s.io/pod-group]: is set by the operator "
       "itself"},
      {{{"metadata", {{"annotations", {{"scheduling.k8s.io/group-name", "mine"}}}}}},
       "spec.template.metadata.annotations[scheduling.k8s.io/group-name]: is set by the operator "
       "itself"},
      {{{"metadata", {{"annotations", {{"scheduling.volcano.sh/group-name", "mine"}}}}}},
       "spec.template.metadata.annotations[scheduling.volcano.sh/group-name]: is set by the "
       "operator itself"},
      {{{"spec", {{"schedulingGroup", {{"podGroupName", "mine"}}}}}},
       "spec.template.spec.schedulingGroup: is set by the operator itself"},
  };
  for (const auto& [pod_template, problem] : cases) {
    for (const char* named : {"coscheduling", "volcano", "native"}) {
      EXPECT_EQ(problems_of(spec_with(named, pod_template)), Lines{problem});
    }
    for (const char* open : {"auto", "none"}) {
      EXPECT_EQ(problems_of(spec_with(open, pod_template)), Lines{}) << "the user's own group";
    }
    EXPECT_TRUE(has_own_pod_group(pod_template));
  }
  EXPECT_FALSE(has_own_pod_group({{"metadata", {{"labels", {{"team", "a"}}}}}}));
}

TEST(GangCheckTest, DefaultSchedulerMakesNoGangOfVolcano) {
  const json by_default = {{"spec", {{"schedulerName", "default-scheduler"}}}};
  EXPECT_EQ(problems_of(spec_with("volcano", by_default)),
            Lines{"spec.template.spec.schedulerName: is not Volcano's, which gangScheduler asks "
                  "for"});
  EXPECT_EQ(problems_of(spec_with("coscheduling", by_default)), Lines{})
      << "the plugin may be in the default scheduler";
  EXPECT_EQ(problems_of(spec_with("volcano", {{"spec", {{"schedulerName", "other"}}}})), Lines{});
}

TEST(GangCheckTest, AnyJsonHasAnAnswer) {
  for (const json& spec : {json(), json(3), json{{"scheduling", 3}, {"template", "x"}},
                           spec_with("volcano", {{"metadata", 3}, {"spec", "x"}}),
                           spec_with("volcano", {{"metadata", {{"labels", nullptr}}}})}) {
    EXPECT_EQ(problems_of(spec), Lines{}) << spec;
  }
}

}  // namespace
}  // namespace lockstep::api
