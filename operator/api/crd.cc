#include "operator/api/crd.h"

#include "operator/api/job_fields.h"
#include "operator/api/training_job.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

json column(const char* name, const char* type, const char* path) {
  return {{"name", name}, {"type", type}, {"jsonPath", path}};
}

json wide_column(const char* name, const char* type, const char* path) {
  json result = column(name, type, path);
  result["priority"] = 1;
  return result;
}

json printer_columns() {
  return json::array({
      column("State", "string", ".status.state"),
      column("Step", "string", ".status.progress.summary"),
      column("Loss", "string", ".status.progress.loss"),
      column("Tok/s", "integer", ".status.progress.tokensPerSecond"),
      column("ETA", "string", ".status.progress.eta"),
      column("Restarts", "integer", ".status.restarts"),
      column("Age", "date", ".metadata.creationTimestamp"),
      wide_column("Ranks", "string", ".status.ranks.summary"),
      wide_column("Strategy", "string", ".status.strategy"),
      wide_column("Last-Ckpt", "integer", ".status.progress.lastCheckpointStep"),
      wide_column("Message", "string", ".status.message"),
  });
}

json name_rules() {
  const std::string pattern = std::string("self.metadata.name.matches('") + kNamePattern + "')";
  return json::array(
      {{{"rule", "size(self.metadata.name) <= " + std::to_string(kMaxNameLength)},
        {"message",
         "metadata.name must have at most " + std::to_string(kMaxNameLength) + " characters"}},
       {{"rule", pattern},
        {"message",
         "metadata.name must be lower-case letters, digits and '-', beginning with a letter"}}});
}

json root_schema() {
  return {{"type", "object"},
          {"description", "A distributed training job."},
          {"required", {"spec"}},
          {"properties",
           {{"apiVersion", {{"type", "string"}}},
            {"kind", {{"type", "string"}}},
            {"metadata", {{"type", "object"}}},
            {"spec", common::openapi_schema(spec_fields())},
            {"status", common::openapi_schema(status_fields())}}},
          {"x-kubernetes-validations", name_rules()}};
}

json version() {
  return {{"name", kVersion},
          {"served", true},
          {"storage", true},
          {"additionalPrinterColumns", printer_columns()},
          {"subresources",
           {{"status", json::object()},
            {"scale",
             {{"specReplicasPath", ".spec.ranks"},
              {"statusReplicasPath", ".status.ranks.running"},
              {"labelSelectorPath", ".status.selector"}}}}},
          {"schema", {{"openAPIV3Schema", root_schema()}}}};
}

}  // namespace

json crd() {
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", std::string(kPlural) + "." + kGroup}}},
          {"spec",
           {{"group", kGroup},
            {"scope", "Namespaced"},
            {"names",
             {{"kind", kKind},
              {"listKind", std::string(kKind) + "List"},
              {"plural", kPlural},
              {"singular", "trainingjob"},
              {"shortNames", {"tjob"}},
              {"categories", {"all"}}}},
            {"versions", json::array({version()})}}}};
}

std::string crd_yaml() {
  return "# Generated from the table of fields in operator/api; printed by `lockstep schema`.\n" +
         to_yaml(crd());
}

}  // namespace lockstep::api
