// lockstep get: jobs of a cluster, as kubectl lists them.
#include <algorithm>
#include <iostream>
#include <optional>

#include "operator/api/codec.h"
#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/job_table.h"
#include "operator/cli/verb.h"
#include "operator/kube/object_key.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

// A job that this version cannot decode is shown by its name.
api::TrainingJob job_of(const json& object) {
  common::Result<api::TrainingJob> job = api::decode_job(object);
  if (job) return std::move(job).value();
  api::TrainingJob unknown;
  unknown.meta.name = object.at("metadata").value("name", "");
  unknown.meta.ns = object.at("metadata").value("namespace", "");
  unknown.status.state = "Unreadable";
  unknown.status.message = job.error().message;
  return unknown;
}

std::string print_list(const std::vector<json>& objects, const GetArguments& arguments) {
  if (arguments.form == OutputForm::kName) {
    std::string text;
    for (const json& object : objects) {
      text += "trainingjob.lockstep.dev/" + kube::key_of(object).name + "\n";
    }
    return text;
  }
  if (arguments.form == OutputForm::kText || arguments.form == OutputForm::kWide) {
    const TableOptions options{.wide = arguments.form == OutputForm::kWide,
                               .with_namespace = arguments.all_namespaces,
                               .now = api::wall_clock()};
    std::vector<std::vector<std::string>> rows = {job_columns(options)};
    for (const json& object : objects) rows.push_back(job_row(job_of(object), options));
    return render_table(rows);
  }
  if (arguments.names.size() == 1) return print_object(objects.front(), arguments.form);
  json items = json::array();
  for (json object : objects) {
    object["metadata"].erase("managedFields");
    items.push_back(std::move(object));
  }
  return print_object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}}, arguments.form);
}

// Rows of jobs as they change; ends with the connection's end, which is told.
int watch_jobs(const GetArguments& arguments, const Session& session, const std::string& version) {
  const std::string ns = arguments.all_namespaces ? "" : session.ns;
  std::string query = "watch=true&timeoutSeconds=3600&resourceVersion=" + version;
  if (!arguments.selector.empty()) query += "&labelSelector=" + arguments.selector;
  const TableOptions options{.wide = arguments.form == OutputForm::kWide,
                             .with_namespace = arguments.all_namespaces,
                             .now = {}};
  const auto on_line = [&](std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("object")) return true;
    const json& object = event["object"];
    if (event.value("type", "") == "ERROR" || !object.contains("metadata")) return false;
    const std::string name = object["metadata"].value("name", "");
    const bool is_wanted = arguments.names.empty() || name == arguments.names.front();
    if (!is_wanted) return true;
    TableOptions at = options;
    at.now = api::wall_clock();
    session.out << render_table({job_row(job_of(object), at)}) << std::flush;
    return true;
  };
  const auto refused = session.client.stream(job_path(ns, ""), query, {}, on_line);
  if (!refused) return kOk;
  return complain(session, *refused, {.verb = "watch", .name = ""});
}

std::optional<int> find_named(const GetArguments& arguments, const Session& session,
                              std::vector<json>& found) {
  std::optional<int> status;
  for (const std::string& name : arguments.names) {
    const auto answer = session.client.get(job_path(session.ns, name));
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      status = complain(session, *error, {.verb = "get", .name = name});
      continue;
    }
    found.push_back(std::get<json>(answer));
  }
  return status;
}

}  // namespace

int get_jobs(const GetArguments& arguments, const Session& session) {
  if (arguments.watch && arguments.names.size() > 1) {
    session.err << "error: --watch takes one name, or none\n";
    return kUsage;
  }
  if (arguments.all_namespaces && !arguments.names.empty()) {
    session.err << "error: a name is of one namespace: leave out -A\n";
    return kUsage;
  }
  std::vector<json> found;
  std::string version;
  std::optional<int> status = find_named(arguments, session, found);
  if (arguments.names.empty()) {
    const std::string ns = arguments.all_namespaces ? "" : session.ns;
    kube::ListOptions options;
    options.label_selector = arguments.selector;
    const auto answer = session.client.list(job_path(ns, ""), options, {});
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      return complain(session, *error, {.verb = "list", .name = ""});
    }
    const json& list = std::get<json>(answer);
    version = kube::version_of(list);
    for (json item : list.at("items")) {
      item["apiVersion"] = api::kApiVersion;  // a list leaves them out of its items
      item["kind"] = api::kKind;
      found.push_back(std::move(item));
    }
  }
  const bool is_text = arguments.form == OutputForm::kText || arguments.form == OutputForm::kWide;
  if (found.empty() && !status && is_text) {
    session.err << (arguments.all_namespaces
                        ? "No TrainingJobs found.\n"
                        : "No TrainingJobs found in namespace " + session.ns + ".\n");
  } else if (!found.empty() || (!status && !is_text)) {
    session.out << print_list(found, arguments) << std::flush;
  }
  if (status || !arguments.watch) return status.value_or(kOk);
  if (version.empty()) version = kube::version_of(found.front());
  return watch_jobs(arguments, session, version);
}

int follow_job(const Session& session, const std::string& name,
               const std::function<bool(const json& job)>& is_enough) {
  std::string last;
  bool is_gone = false;
  bool has_ended = false;
  const auto show = [&](const json& object) {
    const TableOptions options{.wide = true, .with_namespace = false, .now = api::wall_clock()};
    std::vector<std::string> row = job_row(job_of(object), options);
    row.erase(row.begin() + 7);  // the age alone is no news
    const std::string line = render_table({row});
    if (line != last) session.out << line << std::flush;
    last = line;
    has_ended = is_enough(object);
  };
  while (!has_ended && !is_gone) {
    const auto answer = session.client.get(job_path(session.ns, name));
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      return complain(session, *error, {.verb = "get", .name = name});
    }
    const json& job = std::get<json>(answer);
    show(job);
    if (has_ended) break;
    const auto refused =
        session.client.stream(job_path(session.ns, ""),
                              "watch=true&timeoutSeconds=300&fieldSelector=metadata.name%3D" +
                                  name + "&resourceVersion=" + kube::version_of(job),
                              {}, [&](std::string_view line) {
                                const json event = json::parse(line, nullptr, false);
                                if (!event.is_object() || event.value("type", "") == "ERROR")
                                  return false;
                                if (kube::key_of(event.at("object")).name != name) return true;
                                is_gone = event.value("type", "") == "DELETED";
                                if (!is_gone) show(event.at("object"));
                                return !has_ended && !is_gone;
                              });
    if (refused && refused->http_status != 410 && refused->http_status != 0) {
      return complain(session, *refused, {.verb = "watch", .name = name});
    }
  }
  if (is_gone) session.err << "error: " << name << " was deleted\n";
  return is_gone ? kNoSuchJob : kOk;
}

void add_get(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("get", "list jobs, or print one");
  verb.group(kClusterGroup);
  verb.footer("Example: lockstep get -A -o wide; lockstep get JOB -o yaml");
  GetArguments& arguments = run_when_parsed<GetArguments>(verb, status, [](const auto& given) {
    return run_on_cluster(given.cluster,
                          [&](const Session& session) { return get_jobs(given, session); });
  });
  verb.add_option("name", arguments.names, "of a job; default: all of the namespace")
      ->type_name("NAME");
  add_cluster_arguments(verb, arguments.cluster);
  add_output_form(verb, arguments.form, true);
  verb.add_flag("-A,--all-namespaces", arguments.all_namespaces, "jobs of all namespaces");
  verb.add_option("-l,--selector", arguments.selector, "only jobs with these labels")
      ->type_name("LABEL=VALUE");
  verb.add_flag("-w,--watch", arguments.watch, "print every change after it, until Ctrl-C");
}

}  // namespace lockstep::cli
