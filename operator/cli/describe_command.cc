// lockstep describe: what a job is doing, why, and what to do.
#include <iostream>

#include "operator/api/codec.h"
#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/explain_job.h"
#include "operator/cli/job_table.h"
#include "operator/cli/verb.h"
#include "operator/plan/names.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

void print_lines(std::ostream& out, const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out << title << "\n";
  for (const std::string& line : lines) out << "  " << line << "\n";
}

std::string known(const std::string& text) {
  return text.empty() ? "-" : text;
}

void print_head(std::ostream& out, const api::TrainingJob& job) {
  const api::TrainingJobStatus& status = job.status;
  out << render_table({{"Name:", job.meta.name},
                       {"Namespace:", job.meta.ns},
                       {"State:", known(status.state)},
                       {"Ranks:", std::to_string(status.ranks.running) + " of " +
                                      std::to_string(job.spec.ranks) + " running"},
                       {"Attempt:", std::to_string(status.attempt) + ", " +
                                        std::to_string(status.restarts) + " restarts charged"},
                       {"Strategy:", known(status.strategy)}});
  if (const std::optional<api::ProgressStatus>& progress = status.progress) {
    std::vector<std::vector<std::string>> rows = {
        {"Step:", std::to_string(progress->step) + " of " + std::to_string(progress->total_steps)},
        {"Loss:", known(api::format_loss(progress->loss))},
        {"Tokens/s:", std::to_string(progress->tokens_per_second)}};
    if (progress->last_checkpoint_step) {
      rows.push_back({"Checkpoint:", "step " + std::to_string(*progress->last_checkpoint_step)});
    }
    out << render_table(rows);
  }
  if (status.goodput) out << "Goodput:   " << known(api::goodput_ratio(*status.goodput)) << "\n";
}

const char* value_of(api::ConditionStatus status) {
  switch (status) {
    case api::ConditionStatus::kTrue:
      return "True";
    case api::ConditionStatus::kFalse:
      return "False";
    case api::ConditionStatus::kUnknown:
      break;
  }
  return "Unknown";
}

void print_tables(std::ostream& out, const api::TrainingJob& job,
                  const std::vector<PodFact>& pods) {
  std::vector<std::vector<std::string>> rows = {{"CONDITION", "STATUS", "REASON", "MESSAGE"}};
  for (const api::Condition& condition : job.status.conditions) {
    rows.push_back(
        {condition.type, value_of(condition.status), condition.reason, condition.message});
  }
  if (rows.size() > 1) out << "\n" << render_table(rows);
  rows = {{"POD", "ATTEMPT", "RANK", "PHASE", "EXIT", "NODE"}};
  for (const PodFact& pod : pods) {
    rows.push_back({pod.name, std::to_string(pod.attempt), std::to_string(pod.rank),
                    pod.is_deleting ? "Terminating" : pod.phase,
                    pod.exit_code ? std::to_string(*pod.exit_code) : "-", known(pod.node)});
  }
  if (rows.size() > 1) out << "\n" << render_table(rows);
}

int print(const JobArguments& arguments, const Session& session, const api::TrainingJob& job,
          const std::vector<PodFact>& pods) {
  const Explanation said = explain_job(job, pods, api::wall_clock());
  if (arguments.form != OutputForm::kText) {
    session.out << print_object({{"name", job.meta.name},
                                 {"namespace", job.meta.ns},
                                 {"state", job.status.state},
                                 {"headline", said.headline},
                                 {"why", said.why},
                                 {"todo", said.todo}},
                                arguments.form);
    return kOk;
  }
  print_head(session.out, job);
  session.out << "\nIt is " << said.headline << ".\n";
  print_lines(session.out, "Why:", said.why);
  print_lines(session.out, "What to do:", said.todo);
  print_tables(session.out, job, pods);
  return kOk;
}

}  // namespace

int describe_job(const JobArguments& arguments, const Session& session) {
  const auto found = read_job(session, arguments.name);
  if (const int* const status = std::get_if<int>(&found)) return *status;
  const auto& job = std::get<api::TrainingJob>(found);
  kube::ListOptions options;
  options.label_selector = plan::pod_selector(arguments.name);
  const auto pods = session.client.list(pods_path(session.ns), options, {});
  if (const auto* error = std::get_if<kube::ApiError>(&pods)) {
    complain(session, *error, {.verb = "list", .name = "", .plural = "pods"});
    return print(arguments, session, job, {});  // the job itself tells most of it
  }
  return print(arguments, session, job, pods_of(job, std::get<json>(pods).at("items")));
}

void add_describe(CLI::App& app, int& status) {
  CLI::App& verb =
      *app.add_subcommand("describe", "say what a job is doing, why, and what to do about it");
  verb.group(kClusterGroup);
  JobArguments& arguments = run_when_parsed<JobArguments>(verb, status, [](const auto& given) {
    return run_on_cluster(given.cluster,
                          [&](const Session& session) { return describe_job(given, session); });
  });
  verb.add_option("name", arguments.name, "of a job")->required()->type_name("NAME");
  add_cluster_arguments(verb, arguments.cluster);
  add_output_form(verb, arguments.form, false);
}

}  // namespace lockstep::cli
