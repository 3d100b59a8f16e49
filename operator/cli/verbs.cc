#include "operator/cli/verbs.h"

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/compare_command.h"
#include "operator/cli/completion.h"
#include "operator/cli/doctor_command.h"
#include "operator/cli/env_command.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/fetch_command.h"
#include "operator/cli/import_command.h"
#include "operator/cli/init_command.h"
#include "operator/cli/report_command.h"
#include "operator/cli/run_command.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/schema_command.h"
#include "operator/cli/top_command.h"
#include "operator/cli/tune_command.h"
#include "operator/cli/validate_command.h"

namespace lockstep::cli {

void add_verbs(CLI::App& app, int& status) {
  add_init(app, status);
  add_import(app, status);
  add_validate(app, status);
  add_plan(app, status);
  add_estimate(app, status);
  add_tune(app, status);
  add_schema(app, status);
  add_fetch(app, status);
  add_run(app, status);
  add_runtime_verbs(app, status);
  add_cluster_verbs(app, status);
  add_report(app, status);
  add_compare(app, status);
  add_top(app, status);
  add_env(app, status);
  add_doctor(app, status);
  add_completion(app, status);
}

}  // namespace lockstep::cli
