// lockstep logs: what the ranks of a job print, the first failing one first.
#include <iostream>

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/explain_job.h"
#include "operator/cli/log_choice.h"
#include "operator/cli/log_follow.h"
#include "operator/cli/verb.h"
#include "operator/plan/names.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

std::optional<kube::ApiError> print_log(const LogsArguments& arguments, const Session& session,
                                        const LogSource& source) {
  std::string query = "container=trainer";
  if (arguments.tail >= 0) query += "&tailLines=" + std::to_string(arguments.tail);
  const kube::ResourcePath path{{"", "v1", "pods"}, session.ns, source.pod, "log"};
  return session.client.stream(path, query, {}, [&](std::string_view line) {
    session.out << source.prefix << line << "\n";
    return static_cast<bool>(session.out);
  });
}

}  // namespace

int print_logs(const LogsArguments& arguments, const Session& session) {
  const auto found = read_job(session, arguments.name);
  if (const int* const status = std::get_if<int>(&found)) return *status;
  const auto& job = std::get<api::TrainingJob>(found);
  kube::ListOptions options;
  options.label_selector = plan::pod_selector(arguments.name);
  const auto pods = session.client.list(pods_path(session.ns), options, {});
  if (const auto* error = std::get_if<kube::ApiError>(&pods)) {
    return complain(session, *error, {.verb = "list", .name = "", .plural = "pods"});
  }
  const std::vector<LogSource> sources =
      choose_logs(job, pods_of(job, std::get<json>(pods).at("items")),
                  {arguments.all_ranks, arguments.rank, arguments.attempt});
  if (sources.empty()) {
    session.err << "error: no pod of that rank and attempt is there (lockstep describe "
                << arguments.name << " -n " << session.ns << " lists them)\n";
    return kNoSuchJob;
  }
  int status = kOk;
  for (const LogSource& source : sources) {
    if (const auto refused = print_log(arguments, session, source)) {
      status =
          complain(session, *refused, {.verb = "get", .name = source.pod, .plural = "pods/log"});
    }
  }
  session.out << std::flush;
  return status;
}

void add_logs(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("logs", "print what a rank prints, or all of them");
  verb.group(kClusterGroup);
  verb.footer("Example: lockstep logs JOB --rank 3 --tail 50");
  LogsArguments& arguments = run_when_parsed<LogsArguments>(verb, status, [](const auto& given) {
    return run_on_cluster(given.cluster, [&](const Session& session) {
      return given.follow ? follow_logs(given, session) : print_logs(given, session);
    });
  });
  verb.add_option("name", arguments.name, "of a job")->required()->type_name("NAME");
  CLI::Option* const rank =
      verb.add_option("--rank", arguments.rank, "default: the first failing rank, or rank 0")
          ->check(CLI::NonNegativeNumber)
          ->type_name("N");
  verb.add_flag("--all-ranks", arguments.all_ranks,
                "every rank, lines prefixed, the first failing rank first")
      ->excludes(rank);
  verb.add_flag("-f,--follow", arguments.follow,
                "print what comes, of later attempts too, until the job has ended");
  verb.add_option("--attempt", arguments.attempt, "default: the failed one, or the newest")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  verb.add_option("--tail", arguments.tail, "only so many lines of each")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  add_cluster_arguments(verb, arguments.cluster);
}

}  // namespace lockstep::cli
