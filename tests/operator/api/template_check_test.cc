#include "operator/api/template_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/document.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

json yaml(const std::string& text) {
  common::ParsedText parsed = common::parse_documents(text);
  return parsed.documents.at(0).value;
}

json spec_with(const json& pod_template) {
  return {{"train", json::object()},
          {"inputs", json::array({{{"name", "corpus"}, {"mountPath", "/data"}}})},
          {"template", pod_template}};
}

std::vector<std::string> problems_of(const json& spec) {
  std::vector<std::string> lines;
  for (const common::Problem& problem : check_template(spec)) {
    lines.push_back(problem.path + ": " + problem.message);
  }
  return lines;
}

TEST(TemplateCheckTest, AcceptsWhatIsAMatterOfTaste) {
  const json pod_template = yaml(R"(
metadata: {labels: {team: a}, annotations: {k8s.v1.cni.cncf.io/networks: ib}, creationTimestamp: null}
spec:
  nodeSelector: {gpu: h200}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  priorityClassName: high
  securityContext: {runAsNonRoot: false, runAsUser: 0}
  volumes: [{name: shm, emptyDir: {sizeLimit: 8Gi}}, {name: huge, emptyDir: {medium: HugePages}}]
  containers:
  - name: trainer
    command: [numactl, lockstep-runtime]
    env: [{name: NCCL_DEBUG, value: INFO}, {name: KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}]
    ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]
    volumeMounts: [{name: huge, mountPath: /dev/hugepages}]
    securityContext: {capabilities: {add: [IPC_LOCK]}}
  - {name: logs, image: example.test/logs, volumeMounts: [{name: output, mountPath: /output}]}
  initContainers: [{name: fetch, image: example.test/fetch, restartPolicy: Always}]
)");
  EXPECT_EQ(problems_of(spec_with(pod_template)), std::vector<std::string>());
  EXPECT_EQ(problems_of(spec_with(json::object())), std::vector<std::string>());
  EXPECT_EQ(problems_of({{"command", {"a"}}}), std::vector<std::string>());
}

TEST(TemplateCheckTest, RefusesByNameWhatMakesTheGang) {
  struct Case {
    std::string text;
    std::string expected;  // how the only problem begins
  };
  const std::string trainer = "spec: {containers: [{name: trainer, ";
  const std::string in_trainer = "spec.template.spec.containers[0].";
  const std::vector<Case> table = {
      {"status: {}", "spec.template.status: cannot be set by a template"},
      {"metadata: {name: x}", "spec.template.metadata.name: cannot be set by a template"},
      {"metadata: {finalizers: [a/b]}", "spec.template.metadata.finalizers: cannot be set"},
      {"metadata: {ownerReferences: []}", "spec.template.metadata.ownerReferences: cannot be set"},
      {"metadata: {labels: {lockstep.dev/rank: '1'}}",
       "spec.template.metadata.labels[lockstep.dev/rank]: is set by the operator"},
      {"metadata: {labels: {kueue.x-k8s.io/queue-name: team}}",
       "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: is set by the operator"},
      {"metadata: {annotations: {kueue.x-k8s.io/retriable-in-group: 'false'}}",
       "spec.template.metadata.annotations[kueue.x-k8s.io/retriable-in-group]: is set by"},
      {"metadata: {labels: {kueue.x-k8s.io/pod-group-pod-index: '0'}}",
       "spec.template.metadata.labels[kueue.x-k8s.io/pod-group-pod-index]: is set by the operator"},
      {"metadata: {annotations: {kueue.x-k8s.io/pod-group-pod-index-label: a}}",
       "spec.template.metadata.annotations[kueue.x-k8s.io/pod-group-pod-index-label]: is set by"},
      {"spec: {schedulingGates: [{name: a.b/c}, {name: kueue.x-k8s.io/admission}]}",
       "spec.template.spec.schedulingGates[1].name: kueue.x-k8s.io/admission is set by"},
      {"spec: {schedulingGates: {}}", "spec.template.spec.schedulingGates: must be a list"},
      {"metadata: {labels: {app.kubernetes.io/managed-by: me}}",
       "spec.template.metadata.labels[app.kubernetes.io/managed-by]: is set by the operator"},
      {"metadata: []", "spec.template.metadata: must be a map"},
      {"spec: {restartPolicy: Always}", "spec.template.spec.restartPolicy: cannot be set: a rank"},
      {"spec: {hostname: a}", "spec.template.spec.hostname: cannot be set: ranks find"},
      {"spec: {subdomain: a}", "spec.template.spec.subdomain: cannot be set: ranks find"},
      {"spec: {setHostnameAsFQDN: true}", "spec.template.spec.setHostnameAsFQDN: cannot be set"},
      {"spec: {nodeName: n1}", "spec.template.spec.nodeName: cannot be set: it would go around"},
      {"spec: {activeDeadlineSeconds: 5}", "spec.template.spec.activeDeadlineSeconds: cannot"},
      {"spec: {terminationGracePeriodSeconds: 5}",
       "spec.template.spec.terminationGracePeriodSeconds: cannot be set: the checkpoint"},
      {"spec: {dnsPolicy: Default}", "spec.template.spec.dnsPolicy: ranks find rank 0"},
      {"spec: {hostNetwork: true, dnsPolicy: ClusterFirst}", "spec.template.spec.dnsPolicy: ranks"},
      {"spec: {securityContext: 1}", "spec.template.spec.securityContext: must be a map"},
      {"spec: {volumes: {}}", "spec.template.spec.volumes: must be a list"},
      {"spec: {volumes: [{emptyDir: {}}]}", "spec.template.spec.volumes[0]: must be a map with"},
      {"spec: {volumes: [{name: a}, {name: a}]}",
       "spec.template.spec.volumes[1].name: a appears twice"},
      {"spec: {volumes: [{name: config, secret: {}}]}", "spec.template.spec.volumes[0]: config"},
      {"spec: {volumes: [{name: output, emptyDir: {}}]}", "spec.template.spec.volumes[0]: output"},
      {"spec: {volumes: [{name: input-corpus}]}", "spec.template.spec.volumes[0]: input-corpus"},
      {"spec: {volumes: [{name: shm, hostPath: {path: /x}}]}",
       "spec.template.spec.volumes[0].hostPath: cannot be set"},
      {"spec: {containers: [{image: a}]}", "spec.template.spec.containers[0]: must be a map with"},
      {"spec: {containers: null}", "spec.template.spec.containers: has no value"},
      {"spec: {$patch: replace}", "spec.template.spec.$patch: directives"},
      {"spec: {initContainers: [{name: trainer}]}", "spec.template.spec.initContainers[0].name"},
      {trainer + "env: [{name: RANK, value: '1'}]}]}", in_trainer + "env[0].name: RANK is set"},
      {trainer + "env: [{name: A}, {name: LOCKSTEP_JOB}]}]}", in_trainer + "env[1].name: LOCKST"},
      {trainer + "env: [{name: A, value: 1}]}]}", in_trainer + "env[0].value: must be a string"},
      {trainer + "terminationMessagePath: /x}]}", in_trainer + "terminationMessagePath: cannot"},
      {trainer + "terminationMessagePolicy: File}]}", in_trainer + "terminationMessagePolicy"},
      {trainer + "restartPolicy: Always}]}", in_trainer + "restartPolicy: cannot be set"},
      {trainer + "command: []}]}", in_trainer + "command: must be a list of strings"},
      {trainer + "volumeMounts: [{name: a, mountPath: /output/}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /output is a mount of ours"},
      {trainer + "volumeMounts: [{name: a, mountPath: /data}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /data is a mount of ours"},
      {trainer + "volumeMounts: [{name: a, mountPath: /output/checkpoints}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /output/checkpoints is a mount of ours, or below"},
      {trainer + "volumeMounts: [{name: a, mountPath: //output/.}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /output is a mount of ours"},
      {trainer + "volumeMounts: [{name: a, mountPath: /etc/lockstep/job.json, subPath: j}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /etc/lockstep/job.json is a mount of ours"},
      {"spec: {containers: [{name: 5}]}", "spec.template.spec.containers[0]: must be a map with"},
      {"spec: {volumes: [{name: shm, emptyDir: {medium: ''}}]}",
       "spec.template.spec.volumes[0].emptyDir.medium: cannot be set"},
      {trainer + "volumeMounts: [{name: a, mountPath: /etc/lockstep}]}]}",
       in_trainer + "volumeMounts[0].mountPath: /etc/lockstep is a mount of ours"},
  };
  for (const Case& c : table) {
    const std::vector<std::string> found = problems_of(spec_with(yaml(c.text)));
    ASSERT_EQ(found.size(), 1u) << c.text;
    EXPECT_EQ(found[0].substr(0, c.expected.size()), c.expected) << c.text;
  }
}

TEST(TemplateCheckTest, RefusesWhatIsTooDeepToBeWalkedThrough) {
  json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = json::array({std::move(deep)});
  EXPECT_EQ(problems_of(spec_with({{"spec", {{"x", std::move(deep)}}}})),
            std::vector<std::string>{"spec.template: must not nest deeper than 64 levels"});
}

TEST(TemplateCheckTest, AProgramOfOnesOwnSaysHowLongItTakesToStop) {
  const auto found = [](const json& grace) {
    return problems_of(
        {{"command", {"a"}}, {"template", {{"spec", {{"terminationGracePeriodSeconds", grace}}}}}});
  };
  EXPECT_TRUE(found(300).empty());
  EXPECT_EQ(found(0).size(), 1u);
  EXPECT_EQ(found("300").size(), 1u);
}

TEST(TemplateCheckTest, RefusesATemplateThatIsTooLarge) {
  json pod_template = {{"metadata", {{"annotations", {{"a", std::string(65536, 'x')}}}}}};
  EXPECT_EQ(problems_of(spec_with(pod_template)),
            std::vector<std::string>{"spec.template: must have at most 65536 bytes as JSON"});
}

}  // namespace
}  // namespace lockstep::api
