#include "operator/plan/overlay.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/template_check.h"
#include "operator/plan/render.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;

json parse(const char* text) {
  return json::parse(text);
}

TEST(OverlayTest, MergesMapsAndListsByTheirKeys) {
  struct Case {
    const char* what;
    const char* pod;
    const char* patch;
    const char* expected;
  };
  const std::vector<Case> table = {
      {"maps are merged, the template wins", R"({"metadata":{"labels":{"a":"1","b":"1"}}})",
       R"({"metadata":{"labels":{"b":"2","c":"2"}}})",
       R"({"metadata":{"labels":{"a":"1","b":"2","c":"2"}}})"},
      {"a sidecar comes after the trainer",
       R"({"metadata":{},"spec":{"containers":[{"name":"trainer","image":"i"}]}})",
       R"({"spec":{"containers":[{"name":"x"},{"name":"trainer","tty":true}]}})",
       R"({"metadata":{},"spec":{"containers":[{"name":"trainer","image":"i","tty":true},{"name":"x"}]}})"},
      {"a variable replaces its namesake as a whole",
       R"({"metadata":{},"spec":{"containers":[{"name":"t","env":[{"name":"A","value":"1"},{"name":"B"}]}]}})",
       R"({"spec":{"containers":[{"name":"t","env":[{"name":"A","valueFrom":{}},{"name":"C"}]}]}})",
       R"({"metadata":{},"spec":{"containers":[{"name":"t","env":[{"name":"A","valueFrom":{}},{"name":"B"},{"name":"C"}]}]}})"},
      {"mounts go by path, ports by number and protocol, volumes by name",
       R"({"metadata":{},"spec":{"volumes":[{"name":"shm","emptyDir":{"medium":"Memory"}}],"containers":[
          {"name":"t","ports":[{"containerPort":1,"protocol":"TCP","name":"m"}],"volumeMounts":[{"name":"a","mountPath":"/a"}]}]}})",
       R"({"spec":{"volumes":[{"name":"v"},{"name":"shm","emptyDir":{"sizeLimit":"1Gi"}}],"containers":[
          {"name":"t","ports":[{"containerPort":1,"hostPort":1},{"containerPort":1,"protocol":"UDP"}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}]}})",
       R"({"metadata":{},"spec":{"volumes":[{"name":"shm","emptyDir":{"medium":"Memory","sizeLimit":"1Gi"}},{"name":"v"}],"containers":[
          {"name":"t","ports":[{"containerPort":1,"protocol":"TCP","name":"m","hostPort":1},{"containerPort":1,"protocol":"UDP"}],
           "volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"v","mountPath":"/v"}]}]}})"},
      {"other lists are one thing",
       R"({"metadata":{},"spec":{"containers":[{"name":"t","command":["a","b"]}]}})",
       R"({"spec":{"containers":[{"name":"t","command":["c"]}],"tolerations":[{"key":"k"}]}})",
       R"({"metadata":{},"spec":{"containers":[{"name":"t","command":["c"]}],"tolerations":[{"key":"k"}]}})"},
      {"our preferences of affinity stay",
       R"({"metadata":{},"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100}]}}}})",
       R"({"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}}}})",
       R"({"metadata":{},"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100},{"weight":1}]}}}})"},
      {"what kubectl generates is no value", R"({"metadata":{"name":"a"}})",
       R"({"metadata":{"creationTimestamp":null}})", R"({"metadata":{"name":"a"}})"},
      {"nothing else of a template counts", R"({"metadata":{"name":"a"}})",
       R"({"kind":"x","metadata":7})", R"({"metadata":{"name":"a"}})"},
  };
  for (const Case& c : table) {
    EXPECT_EQ(lay_over(parse(c.pod), parse(c.patch)), parse(c.expected)) << c.what;
  }
}

// A template of random parts; it passes the check.
json random_template(std::mt19937& random) {
  static const std::vector<const char*> parts = {
      R"({"metadata":{"labels":{"team":"a"}}})",
      R"({"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"ib"}}})",
      R"({"spec":{"nodeSelector":{"gpu":"h200"}}})",
      R"({"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}})",
      R"({"spec":{"hostNetwork":true}})",
      R"({"spec":{"securityContext":{"runAsUser":0,"runAsNonRoot":false,"supplementalGroups":[1]}}})",
      R"({"spec":{"imagePullSecrets":[{"name":"s"},{"name":"mine"}]}})",
      R"({"spec":{"volumes":[{"name":"v","hostPath":{"path":"/v"}},{"name":"shm","emptyDir":{"sizeLimit":"1Gi"}}]}})",
      R"({"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}}}})",
      R"({"spec":{"initContainers":[{"name":"fetch"}]}})",
      R"({"spec":{"containers":[{"name":"side","env":[{"name":"RANK","value":"7"}]}]}})",
      R"({"spec":{"containers":[{"name":"trainer","env":[{"name":"A","value":"2"},{"name":"C"}],"envFrom":[{"secretRef":{}}]}]}})",
      R"({"spec":{"containers":[{"name":"trainer","command":["c"],"args":["d"],"image":"other"}]}})",
      R"({"spec":{"containers":[{"name":"trainer","ports":[{"containerPort":29500,"hostPort":1},{"containerPort":7}]}]}})",
      R"({"spec":{"containers":[{"name":"trainer","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}})",
      R"({"spec":{"containers":[{"name":"trainer","securityContext":{"capabilities":{"add":["IPC_LOCK"]}}}]}})",
      R"({"spec":{"containers":[{"name":"trainer","resources":{"limits":{"rdma/hca":1}}}]}})"};
  json result = json::object();
  for (int i = 0; i < 5; ++i) {
    result = lay_over(std::move(result), parse(parts[random() % parts.size()]));
    if (result["metadata"].is_null()) result.erase("metadata");
  }
  return result;
}

json item(const json& list, const char* key, const json& value) {
  for (const json& candidate : list) {
    if (candidate.value(key, json()) == value) return candidate;
  }
  return nullptr;
}

// Every item of `ours` is in `laid`, with all that it said (less what a template may replace).
void expect_kept(const json& ours, const json& laid, const char* key) {
  for (const json& wanted : ours) {
    const json found = item(laid, key, wanted.at(key));
    ASSERT_FALSE(found.is_null()) << wanted << " is lost";
    for (const auto& [name, value] : wanted.items()) {
      json both = found.at(name);
      if (both.is_object()) both.update(value);
      EXPECT_EQ(found.at(name), both) << wanted;
    }
  }
}

TEST(OverlayTest, OursIsNeverLostWhateverTheTemplate) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same templates each time
  api::TrainingJob job = command_job(2);
  job.spec.image_pull_secrets = {"mine"};
  const json ours =
      render_pod(job, {.number = 1, .ranks = 2, .avoided_nodes = {"n1"}}, 1, Settings{});
  EXPECT_EQ(lay_over(ours, json::object()), ours);
  EXPECT_EQ(lay_over(ours, json()), ours);
  for (int i = 0; i < 300; ++i) {
    const json pod_template = random_template(random);
    ASSERT_TRUE(api::check_template({{"command", {"a"}}, {"template", pod_template}}).empty())
        << pod_template;
    const json laid = lay_over(ours, pod_template);
    ASSERT_EQ(lay_over(laid, pod_template), laid) << pod_template;
    json metadata = laid.at("metadata");
    metadata.erase("annotations");
    metadata.at("labels").erase("team");
    EXPECT_EQ(metadata, ours.at("metadata"));
    for (const char* field : {"restartPolicy", "hostname", "subdomain"}) {
      EXPECT_EQ(laid.at("spec").at(field), ours.at("spec").at(field));
    }
    const json& trainer = laid.at("spec").at("containers").at(0);
    const json& our_trainer = ours.at("spec").at("containers").at(0);
    EXPECT_EQ(trainer.at("name"), "trainer");
    EXPECT_EQ(trainer.at("terminationMessagePolicy"), our_trainer.at("terminationMessagePolicy"));
    EXPECT_EQ(trainer.at("securityContext").at("capabilities").at("drop"), json({"ALL"}));
    expect_kept(our_trainer.at("env"), trainer.at("env"), "name");
    expect_kept(our_trainer.at("volumeMounts"), trainer.at("volumeMounts"), "mountPath");
    expect_kept(our_trainer.at("ports"), trainer.at("ports"), "containerPort");
    expect_kept(ours.at("spec").at("volumes"), laid.at("spec").at("volumes"), "name");
    expect_kept(ours.at("spec").at("imagePullSecrets"), laid.at("spec").at("imagePullSecrets"),
                "name");
    const json& preferred = laid.at("spec")
                                .at("affinity")
                                .at("nodeAffinity")
                                .at("preferredDuringSchedulingIgnoredDuringExecution");
    EXPECT_EQ(preferred.at(0).at("weight"), 100);
  }
}

}  // namespace
}  // namespace lockstep::plan
