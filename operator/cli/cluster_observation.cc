// What `lockstep doctor --cluster` sees: requests, and their answers as values.
#include <algorithm>
#include <chrono>
#include <thread>

#include "operator/api/codec.h"
#include "operator/api/crd.h"
#include "operator/cli/cluster_doctor.h"
#include "operator/kube/lease.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

constexpr const char* kOperatorLabels =
    "app.kubernetes.io/name=lockstep,app.kubernetes.io/component=operator";

const json* body_of(const kube::ApiResult<json>& answer) {
  return std::get_if<json>(&answer);
}

kube::ApiResult<json> list_one_job(const Session& session) {
  kube::ListOptions options;
  options.limit = 1;
  return session.client.list(job_path(session.ns, ""), options, {});
}

bool is_forbidden(const kube::ApiResult<json>& answer) {
  const auto* error = std::get_if<kube::ApiError>(&answer);
  return error != nullptr && error->http_status == 403;
}

// The schema of our version in a CustomResourceDefinition; null without it.
json schema_of(const json& crd) {
  for (const json& version : crd.value(json::json_pointer("/spec/versions"), json::array())) {
    if (version.value("name", "") == api::kVersion) return version.value("schema", json());
  }
  return nullptr;
}

// A failure to answer, which says nothing about what is there: neither "not found" nor "forbidden".
const kube::ApiError* trouble_of(const kube::ApiResult<json>& answer) {
  const auto* error = std::get_if<kube::ApiError>(&answer);
  const bool is_answer = error == nullptr || error->http_status == 403 || error->http_status == 404;
  return is_answer ? nullptr : error;
}

CrdView observe_crd(const Session& session, std::string& trouble) {
  const auto jobs = list_one_job(session);
  const auto crd = session.client.get({{"apiextensions.k8s.io", "v1", "customresourcedefinitions"},
                                       "",
                                       std::string(api::kPlural) + "." + api::kGroup,
                                       ""});
  if (const json* const body = body_of(crd)) {
    return schema_of(*body) == schema_of(api::crd()) ? CrdView::kOurs : CrdView::kOther;
  }
  for (const kube::ApiError* failed : {trouble_of(crd), trouble_of(jobs)}) {
    if (failed == nullptr) continue;
    trouble = failed->error.message;
    return CrdView::kUnknown;
  }
  if (is_forbidden(crd) && (body_of(jobs) != nullptr || is_forbidden(jobs)))
    return CrdView::kHidden;
  return CrdView::kAbsent;
}

// Value of "--flag=value" or "--flag value" among a container's arguments; empty without it.
std::string flag_of(const json& arguments, const std::string& flag) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string text = arguments[i].is_string() ? arguments[i].get<std::string>() : "";
    if (text.starts_with(flag + "=")) return text.substr(flag.size() + 1);
    if (text == flag && i + 1 < arguments.size()) return arguments[i + 1].get<std::string>();
  }
  return "";
}

// A Lease may say anything of its duration; leader election takes 15 s.
constexpr std::chrono::seconds kLongestLeaseWait{60};

bool is_recent(const kube::LeaseRecord& record) {
  const std::optional<api::Time> renewed = api::parse_time(record.renew_time);
  if (!renewed) return false;
  const auto age = api::wall_clock() - *renewed;
  return age <= record.duration && age >= -record.duration;
}

LeaseView observe_lease(const Session& session, const std::string& ns, const std::string& name) {
  LeaseView view{.ns = ns, .name = name, .holder = "", .is_renewed = false, .trouble = ""};
  std::optional<kube::LeaseRecord> first;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const auto answer = session.client.get(kube::lease_path(ns, name));
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      view.trouble = error->error.message;
      return view;
    }
    const kube::LeaseRecord record = kube::decode_lease(std::get<json>(answer)).record;
    view.holder = record.holder;
    // Clocks may differ: one that looks old is watched until it changes, or for all it may last.
    view.is_renewed = !record.holder.empty() &&
                      (is_recent(record) || (first && first->renew_time != record.renew_time));
    const auto waited = std::chrono::steady_clock::now() - begin;
    const std::chrono::seconds patience = std::min(record.duration, kLongestLeaseWait);
    if (view.is_renewed || record.holder.empty() || waited > patience) return view;
    if (!first) first = record;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

OperatorView observe_operator(const Session& session, const json& deployment) {
  OperatorView view;
  const json meta = deployment.value("metadata", json::object());
  view.ns = meta.value("namespace", "");
  view.name = meta.value("name", "");
  view.version = meta.value("labels", json::object()).value("app.kubernetes.io/version", "");
  view.num_ready = deployment.value(json::json_pointer("/status/readyReplicas"), int64_t{0});
  const json arguments =
      deployment.value(json::json_pointer("/spec/template/spec/containers/0/args"), json::array());
  view.runtime_image = flag_of(arguments, "--runtime-image");
  view.gpu_runtime_image = flag_of(arguments, "--gpu-runtime-image");
  if (std::find(arguments.begin(), arguments.end(), "--leader-elect") != arguments.end()) {
    const std::string ns = flag_of(arguments, "--leader-elect-resource-namespace");
    const std::string name = flag_of(arguments, "--leader-elect-resource-name");
    view.lease = observe_lease(session, ns.empty() ? view.ns : ns,
                               name.empty() ? "lockstep-operator" : name);
  }
  return view;
}

void observe_operators(const Session& session, const std::string& lease, ClusterView& view) {
  const kube::ResourceType deployments = {"apps", "v1", "deployments"};
  kube::ListOptions options;
  options.label_selector = kOperatorLabels;
  auto answer = session.client.list({deployments, "", "", ""}, options, {});
  if (is_forbidden(answer)) {
    answer = session.client.list({deployments, session.ns, "", ""}, options, {});
    view.sees_deployments = false;
  }
  if (const kube::ApiError* const failed = trouble_of(answer)) {
    view.operators_trouble = failed->error.message;
  }
  if (const json* const body = body_of(answer)) {
    for (const json& deployment : body->value("items", json::array())) {
      view.operators.push_back(observe_operator(session, deployment));
    }
  }
  if (lease.empty()) return;
  const std::size_t slash = lease.find('/');
  OperatorView alone;
  alone.lease = slash == std::string::npos
                    ? observe_lease(session, session.ns, lease)
                    : observe_lease(session, lease.substr(0, slash), lease.substr(slash + 1));
  view.operators.push_back(std::move(alone));
}

// What these credentials may not do; the server is asked about each.
std::vector<std::string> observe_rights(const Session& session, std::string& trouble) {
  const struct {
    const char *verb, *group, *resource, *subresource;
  } wanted[] = {{"create", api::kGroup, api::kPlural, ""},
                {"get", api::kGroup, api::kPlural, ""},
                {"list", api::kGroup, api::kPlural, ""},
                {"patch", api::kGroup, api::kPlural, ""},
                {"delete", api::kGroup, api::kPlural, ""},
                {"list", "", "pods", ""},
                {"get", "", "pods", "log"},
                {"list", "", "events", ""}};
  std::vector<std::string> denied;
  for (const auto& [verb, group, resource, subresource] : wanted) {
    json attributes = {
        {"namespace", session.ns}, {"verb", verb}, {"group", group}, {"resource", resource}};
    std::string text = std::string(verb) + " " + resource;
    if (*subresource != '\0') {
      attributes["subresource"] = subresource;
      text.append("/").append(subresource);
    }
    const auto answer = session.client.create(
        {{"authorization.k8s.io", "v1", "selfsubjectaccessreviews"}, "", "", ""},
        {{"apiVersion", "authorization.k8s.io/v1"},
         {"kind", "SelfSubjectAccessReview"},
         {"spec", {{"resourceAttributes", std::move(attributes)}}}});
    if (const kube::ApiError* const failed = trouble_of(answer)) {
      trouble = failed->error.message;
      return {};
    }
    const json* const body = body_of(answer);
    if (body == nullptr || !body->value(json::json_pointer("/status/allowed"), false)) {
      denied.push_back(std::move(text));
    }
  }
  return denied;
}

// Why the server answers nobody, or not us.
std::optional<Complaint> observe_refusal(const Session& session) {
  const auto answer = list_one_job(session);
  const auto* error = std::get_if<kube::ApiError>(&answer);
  if (error == nullptr || error->http_status == 403 || error->http_status == 404) return {};
  return explain_refusal(*error, {.verb = "list", .name = ""}, session.ns, session.server);
}

}  // namespace

ClusterView observe_cluster(const Session& session, const ClusterDoctorOptions& options) {
  ClusterView view;
  view.version = options.version;
  view.server = session.server;
  view.ns = session.ns;
  view.refusal = observe_refusal(session);
  if (view.refusal) return view;
  view.crd = observe_crd(session, view.crd_trouble);
  observe_operators(session, options.lease, view);
  view.denied = observe_rights(session, view.rights_trouble);
  return view;
}

}  // namespace lockstep::cli
