#include "operator/cli/cluster_verbs.h"

namespace lockstep::cli {

std::string command_name(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "kubectl-lockstep" ? "kubectl lockstep" : "lockstep";
}

void add_cluster_verbs(CLI::App& app, int& status) {
  add_submit(app, status);
  add_get(app, status);
  add_describe(app, status);
  add_logs(app, status);
  add_events(app, status);
  add_suspend(app, status);
  add_resume(app, status);
  add_scale(app, status);
  add_delete(app, status);
}

}  // namespace lockstep::cli
