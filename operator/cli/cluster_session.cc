#include "operator/cli/cluster_session.h"

#include <iostream>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

#include "operator/api/codec.h"
#include "operator/api/crd.h"
#include "operator/cli/exit_status.h"
#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"

namespace lockstep::cli {

using common::ErrorCode;
using nlohmann::json;

namespace {

// What follows "no answer: " in the client's words, or all of them.
std::string cause_of(const std::string& message) {
  constexpr std::string_view kMark = "no answer: ";
  const std::size_t at = message.find(kMark);
  return at == std::string::npos ? message : message.substr(at + kMark.size());
}

std::string with_hint(const common::Error& error) {
  return error.hint.empty() ? error.message : error.message + " (" + error.hint + ")";
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::string thing(const Asked& asked) {
  const std::string kind = asked.plural == "trainingjobs" ? "TrainingJob" : asked.plural;
  return asked.name.empty() ? kind : kind + " " + quoted(asked.name);
}

Complaint not_found(const kube::ApiError& error, const Asked& asked, const std::string& ns) {
  // The path itself is not known, so neither is the kind.
  if (error.error.message.find("could not find the requested resource") != std::string::npos) {
    return {kNoSuchJob,
            "the cluster has no TrainingJobs (install Lockstep's chart, or its CRD: "
            "lockstep schema | kubectl apply -f -)"};
  }
  if (asked.name.empty()) return {kNoSuchJob, error.error.message};
  return {kNoSuchJob, "there is no " + thing(asked) + " in namespace " + quoted(ns) +
                          " (lockstep get -n " + ns + " lists them, lockstep get -A all)"};
}

}  // namespace

void add_cluster_arguments(CLI::App& verb, ClusterArguments& arguments) {
  verb.add_option("--kubeconfig", arguments.kubeconfig,
                  "default: the files in $KUBECONFIG, or ~/.kube/config")
      ->type_name("FILE");
  verb.add_option("--context", arguments.context, "default: the kubeconfig's current one")
      ->type_name("NAME");
  verb.add_option("-n,--namespace", arguments.ns, "default: the context's")->type_name("NAME");
}

int run_on_cluster(const ClusterArguments& arguments,
                   const std::function<int(const Session&)>& act) {
  const common::Result<kube::ClientConfig> config = kube::load_kubeconfig(
      {arguments.kubeconfig, arguments.context}, kube::read_env, kube::read_file);
  if (!config) {
    std::cerr << "error: " << with_hint(config.error()) << "\n";
    return kUnreachable;
  }
  kube::HttpClientOptions options;
  options.user_agent = "lockstep";
  options.field_manager = "lockstep";
  const auto client = kube::make_http_client(*config, options);
  if (!client) {
    std::cerr << "error: " << with_hint(client.error()) << "\n";
    return kUnreachable;
  }
  return act({**client, arguments.ns.empty() ? config->ns : arguments.ns, config->server, std::cout,
              std::cerr});
}

Complaint explain_refusal(const kube::ApiError& error, const Asked& asked, const std::string& ns,
                          const std::string& server) {
  const std::string& message = error.error.message;
  if (error.http_status == 0) {
    return {kUnreachable, "the API server at " + server + " does not answer: " + cause_of(message) +
                              " (is it the right --context?)"};
  }
  if (error.http_status == 401) {
    return {kForbidden, "the API server at " + server +
                            " does not accept the credentials of this context (log in again)"};
  }
  if (error.http_status == 403) {
    return {kForbidden, "you may not " + asked.verb + " " + asked.plural + " in namespace " +
                            quoted(ns) + ": " + message + " (ask for a Role that allows it)"};
  }
  switch (error.error.code) {
    case ErrorCode::kNotFound:
      return not_found(error, asked, ns);
    case ErrorCode::kAlreadyExists:
      return {kConflict, "there is a " + thing(asked) + " in namespace " + quoted(ns) +
                             " already (take another metadata.name, or lockstep delete " +
                             asked.name + " first)"};
    case ErrorCode::kConflict:
      return {kConflict, "the " + thing(asked) + " has just been changed by somebody else: " +
                             message + " (try again)"};
    case ErrorCode::kInvalidArgument:
      return {kInvalidFile, "the API server refuses this: " + message};
    default:
      return {kUnreachable, "the API server at " + server + " cannot do this now: " + message};
  }
}

int complain(const Session& session, const kube::ApiError& error, const Asked& asked) {
  const Complaint complaint = explain_refusal(error, asked, session.ns, session.server);
  session.err << "error: " << complaint.text << "\n";
  return complaint.status;
}

std::variant<api::TrainingJob, int> read_job(const Session& session, const std::string& name) {
  const auto answer = session.client.get(job_path(session.ns, name));
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    return complain(session, *error, {.verb = "get", .name = name});
  }
  common::Result<api::TrainingJob> job = api::decode_job(std::get<json>(answer));
  if (job) return std::move(job).value();
  session.err << "error: " << name << " cannot be read: " << job.error().message
              << " (is this lockstep older than the cluster's?)\n";
  return kInvalidFile;
}

kube::ResourcePath job_path(const std::string& ns, const std::string& name) {
  return {{api::kGroup, api::kVersion, api::kPlural}, ns, name, ""};
}

kube::ResourcePath pods_path(const std::string& ns) {
  return {{"", "v1", "pods"}, ns, "", ""};
}

void add_output_form(CLI::App& verb, OutputForm& form, bool wide) {
  std::map<std::string, OutputForm> forms = {{"json", OutputForm::kJson},
                                             {"yaml", OutputForm::kYaml}};
  if (wide) forms.insert({{"wide", OutputForm::kWide}, {"name", OutputForm::kName}});
  verb.add_option("-o,--output", form, wide ? "json, yaml, wide or name" : "json or yaml")
      ->transform(CLI::Transformer(forms, CLI::ignore_case).description(""))
      ->type_name("FORM");
}

std::string print_object(json object, OutputForm form) {
  if (object.contains("metadata")) object["metadata"].erase("managedFields");
  return form == OutputForm::kYaml ? api::to_yaml(object) : object.dump(4) + "\n";
}

}  // namespace lockstep::cli
