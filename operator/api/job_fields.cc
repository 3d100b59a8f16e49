#include "operator/api/job_fields.h"

#include "operator/api/training_job.h"
#include "runtime/common/env_names.h"
#include "runtime/common/suggest.h"
#include "runtime/common/train_fields.h"

namespace lockstep::api {
namespace {

using common::CelRule;
using common::Field;
using common::FieldType;
using nlohmann::json;

constexpr const char* kLabelPattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

Field text(std::string name, int64_t max_length, std::string doc) {
  return {.name = std::move(name), .doc = std::move(doc), .max_length = max_length};
}

Field required_text(std::string name, int64_t max_length, std::string doc) {
  Field field = text(std::move(name), max_length, std::move(doc));
  field.required = true;
  field.min_length = 1;
  return field;
}

Field absolute_path(std::string name, std::string doc) {
  Field field = required_text(std::move(name), 1024, std::move(doc));
  field.pattern = "^/";
  field.pattern_hint = "an absolute path";
  return field;
}

Field plain(std::string name, FieldType type, std::string doc) {
  return {.name = std::move(name), .type = type, .doc = std::move(doc)};
}

Field object(std::string name, std::string doc, std::vector<Field> children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .children = std::move(children)};
}

Field list(std::string name, std::string doc, int64_t max_items, Field element) {
  return {.name = std::move(name),
          .type = FieldType::kList,
          .doc = std::move(doc),
          .max_items = max_items,
          .element = {std::move(element)}};
}

Field quantities(std::string name, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kMap,
          .doc = std::move(doc),
          .max_items = 32,
          .element = {plain("", FieldType::kQuantity, "")}};
}

std::vector<Field> volume_sources() {
  Field host_path_type = text("type", 32, "What must exist at the path, as in a pod.");
  host_path_type.choices = {"", "Directory", "DirectoryOrCreate", "File", "FileOrCreate"};
  Field medium = text("medium", 32, "Memory, or the node's own medium if empty.");
  medium.choices = {"", "Memory"};
  return {
      object("persistentVolumeClaim", "A claim of the job's namespace.",
             {required_text("claimName", 253, "Name of the claim."),
              plain("readOnly", FieldType::kBoolean, "Whether to mount it read-only.")}),
      object("hostPath", "A path of the node.",
             {absolute_path("path", "Path on the node."), host_path_type}),
      object("configMap", "A ConfigMap of the job's namespace.",
             {required_text("name", 253, "Name of the ConfigMap.")}),
      object("nfs", "An NFS export.",
             {required_text("server", 253, "Host of the server."),
              absolute_path("path", "Exported path."),
              plain("readOnly", FieldType::kBoolean, "Whether to mount it read-only.")}),
      object("emptyDir", "A folder that is gone with its pod.",
             {medium, plain("sizeLimit", FieldType::kQuantity, "Largest size.")}),
  };
}

CelRule one_volume_source() {
  std::vector<std::string> terms;
  for (const std::string& name : volume_source_names()) {
    terms.push_back("(has(self." + name + ") ? 1 : 0)");
  }
  return {common::join(terms, " + ") + " == 1",
          "give exactly one of " + common::join(volume_source_names()), ""};
}

Field inputs() {
  Field name = required_text("name", 63, "Name of the volume.");
  name.pattern = kLabelPattern;
  name.pattern_hint = "lower-case letters, digits and '-'";
  Field item = object("", "A volume and where it is mounted.",
                      {name, absolute_path("mountPath", "Where containers see it.")});
  for (Field& source : volume_sources()) item.children.push_back(std::move(source));
  item.rules = {one_volume_source()};
  Field field = list("inputs", "Volumes that the job reads.", 16, item);
  field.list_key = "name";
  field.rules = {
      {"self.all(a, a.mountPath != '/output' && self.exists_one(b, b.mountPath == a.mountPath))",
       "mount paths must differ from each other and from /output", ""}};
  return field;
}

Field output() {
  Field field = object("output", "Volume for checkpoints, metrics and the model, at /output.",
                       volume_sources());
  field.rules = {one_volume_source()};
  return field;
}

Field environment() {
  Field name = required_text("name", common::kMaxEnvNameLength, "Name of the variable.");
  name.pattern = common::kEnvNamePattern;
  name.pattern_hint = common::kEnvNameHint;
  Field item =
      object("", "One variable.", {name, text("value", common::kMaxEnvValueLength, "Its value.")});
  item.planned = {"valueFrom"};
  Field field = list("env", "Environment variables of every rank.", 128, item);
  field.list_key = "name";
  field.rules = {{"self.all(e, " + common::cel_not_reserved("e.name") + ")",
                  "the operator sets these variables itself", ""}};
  return field;
}

// While a job is not suspended, only `suspend` and `ranks` may change.
CelRule immutable(const std::string& name) {
  const std::string self = "self." + name;
  const std::string old = "oldSelf." + name;
  return {"oldSelf.suspend || (has(" + self + ") == has(" + old + ") && (!has(" + self + ") || " +
              self + " == " + old + "))",
          name + " can only change while the job is suspended", "." + name};
}

std::vector<CelRule> spec_rules(const std::vector<Field>& children) {
  std::vector<CelRule> rules = {
      {"self.ranks % self.ranksPerPod == 0", "ranks must be a multiple of ranksPerPod",
       ".ranksPerPod"},
      {"has(self.train) != has(self.command)", "give exactly one of train and command", ""},
      {"!has(self.args) || has(self.command)", "args need a command", ".args"},
      {"!has(self.train) || !has(self.train.batch.globalBatchSize) || "
       "self.train.batch.globalBatchSize % (self.ranks * "
       "(has(self.train.batch.microBatchSize) ? self.train.batch.microBatchSize : 1) * "
       "(has(self.train.batch.accumulationSteps) ? self.train.batch.accumulationSteps : 1)) == 0",
       "the micro-batches (globalBatchSize / microBatchSize) must be divisible by ranks",
       ".train.batch.globalBatchSize"},
      {"!has(self.train) || !has(self.train.batch.globalBatchSize) || "
       "!has(self.train.batch.microBatchSize) || !has(self.train.batch.accumulationSteps) || "
       "self.train.batch.globalBatchSize == self.train.batch.microBatchSize * "
       "self.train.batch.accumulationSteps * self.ranks",
       "globalBatchSize must be microBatchSize * accumulationSteps * ranks",
       ".train.batch.accumulationSteps"},
      {"!has(self.train) || !has(self.train.parallelism) || "
       "self.train.parallelism.shardRanks == 0 || "
       "self.ranks % self.train.parallelism.shardRanks == 0",
       "parallelism.shardRanks must divide ranks", ".train.parallelism.shardRanks"},
      {"self.ranks == oldSelf.ranks || !has(self.train) || "
       "!has(self.train.batch.accumulationSteps)",
       "ranks cannot change while train.batch.accumulationSteps is given: the batch would change; "
       "give globalBatchSize and microBatchSize",
       ".ranks"},
      {"!has(self.env) || !has(self.train) || !has(self.train.communication) || "
       "!has(self.train.communication.env) || "
       "self.env.all(e, !(e.name in self.train.communication.env))",
       "env and train.communication.env set the same variable", ".train.communication.env"},
      {"has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || "
       "self.managedBy == oldSelf.managedBy)",
       "managedBy never changes", ".managedBy"},
  };
  for (const Field& child : children) {
    const bool may_change =  // template: CEL sees nothing of it, and an attempt keeps its own
        child.name == "suspend" || child.name == "ranks" || child.name == "template";
    if (!may_change) rules.push_back(immutable(child.name));
  }
  return rules;
}

Field seconds(std::string name, double minimum, std::string doc) {
  constexpr double kTenYears = 315360000;
  Field field = plain(std::move(name), FieldType::kInteger, std::move(doc));
  field.minimum = minimum;
  field.maximum = kTenYears;
  return field;
}

Field failure_rules() {
  Field exit_code = plain("", FieldType::kInteger, "");
  exit_code.minimum = 1;
  exit_code.maximum = 255;
  Field reason = text("", 64, "");
  reason.pattern = "^[A-Za-z][-A-Za-z0-9_./]*$";
  reason.pattern_hint = "a reason as firstFailure shows it, e.g. OOMKilled";
  Field action = required_text("action", 16, "What follows; the first rule that matches wins.");
  action.choices = {"Restart", "RestartFree", "Fail"};
  Field exit_codes = list("exitCodes", "Exit codes of the first failing rank.", 32, exit_code);
  Field reasons = list("reasons", "Reasons of the first failure, e.g. OOMKilled.", 32, reason);
  exit_codes.min_items = 1;
  reasons.min_items = 1;
  Field item = object("", "What a failure leads to.", {exit_codes, reasons, action});
  item.rules = {{"has(self.exitCodes) != has(self.reasons)",
                 "give exactly one of exitCodes and reasons", ""}};
  return list("rules", "What failures lead to, before the operator's own table.", 16, item);
}

Field failure_policy() {
  Field max_restarts = plain("maxRestarts", FieldType::kInteger,
                             "Restarts before the job fails, counted anew after every checkpoint.");
  max_restarts.default_value = 3;
  max_restarts.minimum = 0;
  max_restarts.maximum = 1000000;
  Field stall =
      seconds("stallTimeoutSeconds", 0, "Restart when no rank made a step for so long; 0 = never.");
  stall.default_value = 900;
  Field policy = object("failurePolicy", "What happens when a rank fails.",
                        {max_restarts, stall, failure_rules()});
  policy.default_value = json::object();
  return policy;
}

Field scheduling() {
  constexpr double kOneDay = 86400;
  Field gang_timeout =
      seconds("gangTimeoutSeconds", 0,
              "A gang of which some pods have nodes and others get none gives its nodes back after "
              "so long, and tries again; 0 = never.");
  // Half of what ranks wait for each other (communication.timeoutSeconds): they do not give up
  // first.
  gang_timeout.default_value = 300;
  gang_timeout.maximum = kOneDay;
  Field gang_scheduler =
      text("gangScheduler", 16,
           "Who gives nodes to all pods or to none; auto: what the cluster serves and the "
           "template's schedulerName ask for.");
  gang_scheduler.choices = {"auto", "none", "coscheduling", "volcano", "native"};
  gang_scheduler.default_value = "auto";
  Field field =
      object("scheduling", "How the pods of the ranks get nodes.", {gang_scheduler, gang_timeout});
  field.default_value = json::object();
  return field;
}

Field ranks_per_pod() {
  Field field = plain("ranksPerPod", FieldType::kInteger,
                      "Ranks in one pod; must divide ranks. NVLink needs the ranks of a node in "
                      "one pod: set its number of GPUs.");
  field.default_value = 1;
  field.minimum = 1;
  field.maximum = static_cast<double>(kMaxRanksPerPod);
  return field;
}

Field managed_by() {
  Field field = text("managedBy", 253, "Who runs the job; the operator unless given.");
  field.pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
  field.pattern_hint = std::string("a domain, '/' and a name, e.g. ") + kOurController;
  return field;
}

std::vector<Field> spec_children() {
  Field pull_secrets = list("imagePullSecrets", "Secrets for pulling the image.", 16,
                            object("", "A Secret.", {required_text("name", 253, "Its name.")}));
  Field command =
      list("command", "A program of your own in place of train.", 64, text("", 4096, ""));
  command.min_items = 1;
  Field suspend = plain("suspend", FieldType::kBoolean, "true: checkpoint and stop all ranks.");
  suspend.default_value = false;
  Field clean = text("cleanPodPolicy", 16, "Which pods are deleted when the job ends.");
  clean.choices = {"Running", "All", "None"};
  clean.default_value = "Running";
  Field ranks = plain("ranks", FieldType::kInteger, "World size: processes that train together.");
  ranks.required = true;
  ranks.minimum = 1;
  ranks.maximum = static_cast<double>(kMaxRanks);
  return {
      ranks,
      ranks_per_pod(),
      text("image", 512, "Image of the ranks; the operator's runtime image unless given."),
      pull_secrets,
      command,
      list("args", "Arguments of command.", 256, text("", 4096, "")),
      environment(),
      object("resources", "Resources of one rank; a pod asks for ranksPerPod times as much.",
             {quantities("limits", "As in a container."),
              quantities("requests", "As in a container.")}),
      inputs(),
      output(),
      common::train_fields(),
      failure_policy(),
      scheduling(),
      managed_by(),
      suspend,
      seconds("activeDeadlineSeconds", 1,
              "The job fails after so long from its first attempt; suspended time is not counted."),
      seconds("ttlSecondsAfterFinished", 0, "The job is deleted so long after its end."),
      clean,
      plain(
          "template", FieldType::kFree,
          "A PodTemplateSpec laid over the pods of the ranks, whose container is `trainer`. Taken "
          "when an attempt starts."),
  };
}

}  // namespace

const Field& spec_fields() {
  static const Field field = [] {
    Field spec = object("spec", "What to run.", spec_children());
    spec.required = true;
    spec.rules = spec_rules(spec.children);
    return spec;
  }();
  return field;
}

const std::vector<std::string>& volume_source_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Field& source : volume_sources()) result.push_back(source.name);
    return result;
  }();
  return names;
}

}  // namespace lockstep::api
