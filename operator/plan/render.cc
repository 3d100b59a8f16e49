#include "operator/plan/render.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job_fields.h"
#include "operator/api/template_check.h"
#include "operator/plan/overlay.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/queue.h"
#include "operator/plan/resources.h"
#include "runtime/common/env_names.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;

constexpr const char* kConfigFolder = "/etc/lockstep";
constexpr const char* kConfigKey = "job.json";
constexpr const char* kOutputFolder = "/output";
constexpr const char* kScratchFolder = "/tmp";
constexpr const char* kScratchVolume = "lockstep-tmp";

// The user of the images that we publish, and of "nonroot" in common base images. The group owns
// mounted volumes, so that every rank can write the output.
constexpr int64_t kNonRootId = 65532;

// Time for what follows the checkpoint: publishing it and ending the process.
constexpr int64_t kStopMarginSeconds = 15;
constexpr int64_t kDefaultCheckpointGraceSeconds = 120;
constexpr int64_t kDefaultPodGraceSeconds = 30;

bool runs_own_command(const api::TrainingJob& job) {
  return !job.spec.command.empty();
}

// The members of an array of objects, or of anything else none.
std::vector<json> objects_in(const json& array) {
  std::vector<json> objects;
  if (!array.is_array()) return objects;
  for (const json& item : array) {
    if (item.is_object()) objects.push_back(item);
  }
  return objects;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Our own program writes nowhere but to the output, to shared memory and to a scratch folder; what
// another one writes to is not known.
bool has_read_only_root(const api::TrainingJob& job) {
  return !runs_own_command(job);
}

bool needs_scratch(const api::TrainingJob& job) {
  const std::vector<json> inputs = objects_in(job.spec.inputs);
  return has_read_only_root(job) &&
         std::none_of(inputs.begin(), inputs.end(), [](const json& input) {
           const std::string place = text_at(input, "mountPath");
           return place.substr(0, place.find_last_not_of('/') + 1) == kScratchFolder;
         });
}

json env_value(std::string name, std::string value) {
  return {{"name", std::move(name)}, {"value", std::move(value)}};
}

json env_from_field(const char* name, const char* field) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}};
}

json owner_references(const api::TrainingJob& job) {
  return json::array({{{"apiVersion", api::kApiVersion},
                       {"kind", api::kKind},
                       {"name", job.meta.name},
                       {"uid", job.meta.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

json metadata(const api::TrainingJob& job, const std::string& name,
              const std::map<std::string, std::string>& labels) {
  return {{"name", name},
          {"namespace", job.meta.ns},
          {"labels", labels},
          {"ownerReferences", owner_references(job)}};
}

// Rank 0 by its host name in the headless Service. The short form resolves through the search path
// of the pod's own namespace, whatever the cluster's domain is.
std::string master_address(const api::TrainingJob& job, const AttemptSpec& attempt) {
  return pod_name(job.meta.name, {.attempt = attempt.number, .rank = 0}) + "." +
         service_name(job.meta.name);
}

void add(json& env, json more) {
  for (json& variable : more) env.push_back(std::move(variable));
}

// What torchrun reads in place of its flags; a node is a pod.
json torchrun_env(const AttemptSpec& attempt, int64_t rank, const std::string& master,
                  const std::string& port) {
  return {env_value("PET_NNODES", std::to_string(attempt.ranks / attempt.ranks_per_pod)),
          env_value("PET_NODE_RANK", std::to_string(rank / attempt.ranks_per_pod)),
          env_value("PET_NPROC_PER_NODE", std::to_string(attempt.ranks_per_pod)),
          env_value("PET_MASTER_ADDR", master), env_value("PET_MASTER_PORT", port)};
}

// Note [Reserved variables are all set]
// A container's `env` wins over its `envFrom` and over its image, and of neither we know the names.
// So every reserved variable that a rank, its launcher or torchrun reads stands in `env`, even with
// what it would be without.
json runtime_env(const api::TrainingJob& job, const AttemptSpec& attempt,
                 const Settings& settings) {
  return {env_value("LOCKSTEP_JOB", std::string(kConfigFolder) + "/" + kConfigKey),
          env_value("LOCKSTEP_ATTEMPT", std::to_string(attempt.number)),
          env_value("LOCKSTEP_RUN_ID", job.meta.uid),  // all attempts are one run
          env_value("LOCKSTEP_OUTPUT", kOutputFolder),
          env_value("LOCKSTEP_OUTPUT_MODE", "auto"),
          env_value("LOCKSTEP_METRICS_PORT", std::to_string(settings.metrics_port)),
          env_value("LOCKSTEP_METRICS_PORT_FILE", ""),
          env_value("LOCKSTEP_LISTEN_ADDRESS", "0.0.0.0"),
          env_value("LOCKSTEP_SHM_DIR", "/dev/shm"),
          env_value("LOCKSTEP_TERMINATION_MESSAGE", "/dev/termination-log"),
          env_value("LOCKSTEP_RANKS_PER_POD", std::to_string(attempt.ranks_per_pod)),
          env_value("LOCKSTEP_GRACE_SECONDS",
                    std::to_string(grace_period(job, attempt.pod_template).count())),
          env_value("LOCKSTEP_DEVICE", asks_for_gpu(job.spec.resources) ? "cuda" : "cpu"),
          env_value("LOCKSTEP_ISA", ""),  // the best that the processor has
          env_value("LOCKSTEP_PRODUCTS", "")};
}

// What the user gives ranks; a job that sets a variable twice, or one of ours, is not accepted.
void add_users_env(const api::TrainingJob& job, json& env) {
  const auto put = [&env](const std::string& name, const std::string& value) {
    if (!common::is_reserved_env(name)) env.push_back(env_value(name, value));
  };
  for (const auto& [name, value] : job.spec.env) put(name, value);
  const json::json_pointer pointer("/communication/env");
  if (!job.spec.train.is_object() || !job.spec.train.contains(pointer)) return;
  const json& of_communication = job.spec.train.at(pointer);
  if (!of_communication.is_object()) return;
  for (const auto& [name, value] : of_communication.items()) {
    if (value.is_string() && !job.spec.env.contains(name)) put(name, value.get<std::string>());
  }
}

json render_env(const api::TrainingJob& job, const AttemptSpec& attempt, int64_t rank,
                const Settings& settings) {
  const std::string master = master_address(job, attempt);
  const std::string port = std::to_string(settings.master_port);
  json env = {env_value("RANK", std::to_string(rank)),
              env_value("WORLD_SIZE", std::to_string(attempt.ranks)),
              env_value("LOCAL_RANK", "0"),
              env_value("LOCAL_WORLD_SIZE", std::to_string(attempt.ranks_per_pod)),
              env_value("MASTER_ADDR", master),
              env_value("MASTER_PORT", port),
              env_from_field("POD_NAME", "metadata.name"),
              env_from_field("POD_NAMESPACE", "metadata.namespace"),
              env_from_field("POD_IP", "status.podIP"),
              env_from_field("NODE_NAME", "spec.nodeName")};
  add(env, runtime_env(job, attempt, settings));
  add(env, torchrun_env(attempt, rank, master, port));
  add_users_env(job, env);
  return env;
}

// An input without the fields that are ours: what is left is the volume's source.
json volume_of(const std::string& name, json source) {
  source.erase("mountPath");
  source["name"] = name;
  return source;
}

json render_volumes(const api::TrainingJob& job, const AttemptSpec& attempt) {
  json volumes = json::array();
  volumes.push_back({{"name", "config"},
                     {"configMap", {{"name", config_map_name(job.meta.name, attempt.number)}}}});
  volumes.push_back({{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}});
  for (const json& input : objects_in(job.spec.inputs)) {
    volumes.push_back(volume_of("input-" + text_at(input, "name"), input));
  }
  // Without an output every pod has a folder of its own: enough for one rank, and the runtime
  // itself refuses sharded jobs whose ranks do not see the same one.
  const bool has_output = job.spec.output.is_object() && !job.spec.output.empty();
  volumes.push_back(
      volume_of("output", has_output ? job.spec.output : json{{"emptyDir", json::object()}}));
  if (needs_scratch(job)) {
    volumes.push_back({{"name", kScratchVolume}, {"emptyDir", json::object()}});
  }
  return volumes;
}

json render_mounts(const api::TrainingJob& job) {
  json mounts = json::array();
  mounts.push_back({{"name", "config"}, {"mountPath", kConfigFolder}, {"readOnly", true}});
  mounts.push_back({{"name", "shm"}, {"mountPath", "/dev/shm"}});
  for (const json& input : objects_in(job.spec.inputs)) {
    mounts.push_back({{"name", "input-" + text_at(input, "name")},
                      {"mountPath", text_at(input, "mountPath")},
                      {"readOnly", true}});
  }
  mounts.push_back({{"name", "output"}, {"mountPath", kOutputFolder}});
  if (needs_scratch(job)) {
    mounts.push_back({{"name", kScratchVolume}, {"mountPath", kScratchFolder}});
  }
  return mounts;
}

// A rank that is alone in its pod needs nobody to start it.
std::vector<std::string> runtime_command(int64_t ranks_per_pod) {
  if (ranks_per_pod == 1) return {"lockstep-runtime"};
  return {"lockstep-launch", "lockstep-runtime"};
}

const std::string& image_of(const api::TrainingJob& job, const Settings& settings) {
  if (!job.spec.image.empty()) return job.spec.image;
  const bool is_for_gpu = asks_for_gpu(job.spec.resources) && !settings.gpu_runtime_image.empty();
  return is_for_gpu ? settings.gpu_runtime_image : settings.runtime_image;
}

json render_container(const api::TrainingJob& job, const AttemptSpec& attempt, int64_t rank,
                      const Settings& settings) {
  json container = {
      {"name", api::kTrainerContainer},
      {"image", image_of(job, settings)},
      {"command",
       runs_own_command(job) ? job.spec.command : runtime_command(attempt.ranks_per_pod)},
      {"env", render_env(job, attempt, rank, settings)},
      {"ports",
       {{{"name", "master"}, {"containerPort", settings.master_port}, {"protocol", "TCP"}},
        {{"name", "metrics"}, {"containerPort", settings.metrics_port}, {"protocol", "TCP"}}}},
      {"volumeMounts", render_mounts(job)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"readOnlyRootFilesystem", has_read_only_root(job)},
        {"capabilities", {{"drop", {"ALL"}}}}}}};
  if (!job.spec.args.empty()) container["args"] = job.spec.args;
  if (job.spec.resources.is_object() && !job.spec.resources.empty()) {
    container["resources"] = pod_resources(job.spec.resources, attempt.ranks_per_pod);
  }
  return container;
}

// Any node but these. All fields of a term must hold; the API takes one name in each. Source:
// kubernetes pkg/apis/core/validation, ValidateNodeFieldSelectorRequirement.
json avoid_nodes(const std::vector<std::string>& nodes) {
  constexpr int kStrongest = 100;
  json fields = json::array();
  for (const std::string& node : nodes) {
    fields.push_back(
        {{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", json::array({node})}});
  }
  const json term = {{"weight", kStrongest}, {"preference", {{"matchFields", fields}}}};
  return {
      {"nodeAffinity", {{"preferredDuringSchedulingIgnoredDuringExecution", json::array({term})}}}};
}

json image_pull_secrets(const api::TrainingJob& job) {
  json secrets = json::array();
  for (const std::string& name : job.spec.image_pull_secrets) secrets.push_back({{"name", name}});
  return secrets;
}

// Of a program of the user's own only the template knows how long it takes to stop.
int64_t own_grace_seconds(const json& pod_template) {
  constexpr const char* kField = "terminationGracePeriodSeconds";
  if (!pod_template.is_object() || !pod_template.contains("spec")) return kDefaultPodGraceSeconds;
  const json& spec = pod_template["spec"];
  if (!spec.is_object() || !spec.contains(kField)) return kDefaultPodGraceSeconds;
  const json& grace = spec[kField];
  return grace.is_number_integer() ? std::clamp<int64_t>(grace.get<int64_t>(), 1, 86400)
                                   : kDefaultPodGraceSeconds;
}

// Only with this policy a pod on its host's network sees the cluster's DNS, where rank 0 is found.
void keep_cluster_dns(json& spec) {
  const auto host = spec.find("hostNetwork");
  const bool on_host = host != spec.end() && *host == true;
  if (on_host && !spec.contains("dnsPolicy")) spec["dnsPolicy"] = "ClusterFirstWithHostNet";
}

}  // namespace

std::chrono::seconds grace_period(const api::TrainingJob& job, const json& pod_template) {
  if (runs_own_command(job)) return std::chrono::seconds(own_grace_seconds(pod_template));
  int64_t checkpoint_seconds = kDefaultCheckpointGraceSeconds;
  const json& train = job.spec.train;
  if (train.is_object() && train.contains("checkpoint") && train["checkpoint"].is_object()) {
    const auto found = train["checkpoint"].find("gracePeriodSeconds");
    if (found != train["checkpoint"].end() && found->is_number_integer()) {
      checkpoint_seconds = std::clamp<int64_t>(found->get<int64_t>(), 1, 86400);
    }
  }
  return std::chrono::seconds(checkpoint_seconds + kStopMarginSeconds);
}

json render_config_map(const api::TrainingJob& job, const AttemptSpec& attempt) {
  const json job_file = {
      {"name", job.meta.name}, {"ranks", attempt.ranks}, {"train", job.spec.train}};
  const std::string name = config_map_name(job.meta.name, attempt.number);
  json data = {{kConfigKey, job_file.dump(2, ' ', false, json::error_handler_t::replace)}};
  const std::string snapshot = template_text(attempt.pod_template);
  if (!snapshot.empty()) data[kTemplateKey] = snapshot;
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", child_metadata(job, name)},
          {"immutable", true},
          {"data", data}};
}

json child_metadata(const api::TrainingJob& job, const std::string& name) {
  return metadata(job, name, child_labels(job));
}

std::string template_text(const json& pod_template) {
  if (!pod_template.is_object() || pod_template.empty()) return "";
  return pod_template.dump(-1, ' ', false, json::error_handler_t::replace);
}

json render_service(const api::TrainingJob& job, const Settings& settings) {
  const auto port = [](const char* name, int64_t number) {
    return json{{"name", name}, {"port", number}, {"targetPort", number}, {"protocol", "TCP"}};
  };
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", child_metadata(job, service_name(job.meta.name))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{kJobNameLabel, job.meta.name}}},
            {"ports", json::array({port("master", settings.master_port),
                                   port("metrics", settings.metrics_port)})}}}};
}

json render_pod(const api::TrainingJob& job, const AttemptSpec& attempt, int64_t rank,
                const Settings& settings) {
  const PodIdentity identity = {.attempt = attempt.number, .rank = rank};
  const std::string name = pod_name(job.meta.name, identity);
  json spec = {{"restartPolicy", "Never"},
               {"hostname", name},
               {"subdomain", service_name(job.meta.name)},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", grace_period(job, attempt.pod_template).count()},
               {"securityContext",
                {{"runAsNonRoot", true},
                 {"runAsUser", kNonRootId},
                 {"runAsGroup", kNonRootId},
                 {"fsGroup", kNonRootId},
                 {"fsGroupChangePolicy", "OnRootMismatch"},
                 {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"containers", json::array({render_container(job, attempt, rank, settings)})},
               {"volumes", render_volumes(job, attempt)}};
  if (!attempt.avoided_nodes.empty()) spec["affinity"] = avoid_nodes(attempt.avoided_nodes);
  if (!job.spec.image_pull_secrets.empty()) spec["imagePullSecrets"] = image_pull_secrets(job);
  json pod = lay_over({{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", metadata(job, name, pod_labels(job, identity))},
                       {"spec", spec}},
                      attempt.pod_template);
  keep_cluster_dns(pod["spec"]);
  if (attempt.queue) {
    put_in_queue(job, *attempt.queue, attempt.ranks / attempt.ranks_per_pod, pod);
  }
  if (attempt.gang) put_in_gang(*attempt.gang, pod);
  return pod;
}

}  // namespace lockstep::plan
