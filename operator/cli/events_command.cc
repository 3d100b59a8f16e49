// lockstep events: what was told of a job and its pods, oldest first.
#include <algorithm>
#include <iostream>

#include "operator/api/codec.h"
#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/job_table.h"
#include "operator/cli/verb.h"
#include "operator/plan/names.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string last_seen(const json& event) {
  for (const char* name : {"lastTimestamp", "eventTime", "firstTimestamp"}) {
    if (const std::string time = text_of(event, name); !time.empty()) return time;
  }
  return text_of(event.value("metadata", json::object()), "creationTimestamp");
}

bool is_about(const json& event, const std::string& job) {
  const json about = event.value("involvedObject", json::object());
  const std::string name = text_of(about, "name");
  if (text_of(about, "kind") == api::kKind) return name == job;
  return text_of(about, "kind") == "Pod" && plan::parse_pod_name(job, name).has_value();
}

std::vector<std::string> row_of(const json& event, api::Time now) {
  const std::optional<api::Time> time = api::parse_time(last_seen(event));
  const json about = event.value("involvedObject", json::object());
  const int64_t count = event.value("count", json(1)).is_number_integer()
                            ? event.value("count", json(1)).get<int64_t>()
                            : 1;
  std::string seen = time ? api::format_duration(now - *time) : "<unknown>";
  if (count > 1) seen.append(" (x").append(std::to_string(count)).append(")");
  const std::string kind = text_of(about, "kind") == "Pod" ? "pod/" : "trainingjob/";
  return {seen, text_of(event, "type"), text_of(event, "reason"), kind + text_of(about, "name"),
          text_of(event, "message")};
}

}  // namespace

int list_events(const JobArguments& arguments, const Session& session) {
  const auto job = session.client.get(job_path(session.ns, arguments.name));
  if (const auto* error = std::get_if<kube::ApiError>(&job)) {
    return complain(session, *error, {.verb = "get", .name = arguments.name});
  }
  const auto answer = session.client.list({{"", "v1", "events"}, session.ns, "", ""}, {}, {});
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    return complain(session, *error, {.verb = "list", .name = "", .plural = "events"});
  }
  std::vector<json> events;
  for (const json& event : std::get<json>(answer).at("items")) {
    if (is_about(event, arguments.name)) events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const json& a, const json& b) { return last_seen(a) < last_seen(b); });
  if (arguments.form != OutputForm::kText) {
    session.out << print_object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", events}},
                                arguments.form);
    return kOk;
  }
  if (events.empty()) {
    session.err << "No events of " << arguments.name << " (they are kept for an hour).\n";
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}};
  for (const json& event : events) rows.push_back(row_of(event, api::wall_clock()));
  session.out << render_table(rows);
  return kOk;
}

void add_events(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("events", "list what was told of a job and its pods");
  verb.group(kClusterGroup);
  JobArguments& arguments = run_when_parsed<JobArguments>(verb, status, [](const auto& given) {
    return run_on_cluster(given.cluster,
                          [&](const Session& session) { return list_events(given, session); });
  });
  verb.add_option("name", arguments.name, "of a job")->required()->type_name("NAME");
  add_cluster_arguments(verb, arguments.cluster);
  add_output_form(verb, arguments.form, false);
}

}  // namespace lockstep::cli
