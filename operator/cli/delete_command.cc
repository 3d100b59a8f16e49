// lockstep delete: jobs, and with them their pods; what they wrote stays.
#include <iostream>

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"

namespace lockstep::cli {

int delete_jobs(const ChangeArguments& arguments, const Session& session) {
  int status = kOk;
  kube::DeleteOptions options;
  options.propagation = "Background";
  for (const std::string& name : arguments.names) {
    const auto answer = session.client.remove(job_path(session.ns, name), options);
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      status = complain(session, *error, {.verb = "delete", .name = name});
    } else {
      session.out << "trainingjob.lockstep.dev/" << name << " deleted\n";
    }
  }
  return status;
}

void add_delete(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("delete", "delete jobs and their pods; outputs stay");
  verb.group(kClusterGroup);
  ChangeArguments& arguments =
      run_when_parsed<ChangeArguments>(verb, status, [](const auto& given) {
        return run_on_cluster(given.cluster,
                              [&](const Session& session) { return delete_jobs(given, session); });
      });
  verb.add_option("name", arguments.names, "of jobs")->required()->type_name("NAME");
  add_cluster_arguments(verb, arguments.cluster);
}

}  // namespace lockstep::cli
