// lockstep suspend, resume, scale: one field of spec.
#include <iostream>

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

// Patches every job; goes on after a failure, whose exit status is returned.
int patch_jobs(const ChangeArguments& arguments, const Session& session, const json& spec,
               const std::string& done) {
  int status = kOk;
  for (const std::string& name : arguments.names) {
    const auto answer =
        session.client.patch(job_path(session.ns, name), kube::PatchType::kMerge, {{"spec", spec}});
    if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
      status = complain(session, *error, {.verb = "patch", .name = name});
    } else if (arguments.form != OutputForm::kText) {
      session.out << print_object(std::get<json>(answer), arguments.form);
    } else {
      session.out << "trainingjob.lockstep.dev/" << name << " " << done << "\n";
    }
  }
  return status;
}

ChangeArguments& add_change(CLI::App& app, int& status, const char* name, const char* what,
                            int (*act)(const ChangeArguments&)) {
  CLI::App& verb = *app.add_subcommand(name, what);
  verb.group(kClusterGroup);
  ChangeArguments& arguments = run_when_parsed<ChangeArguments>(verb, status, act);
  verb.add_option("name", arguments.names, "of jobs")->required()->type_name("NAME");
  add_cluster_arguments(verb, arguments.cluster);
  add_output_form(verb, arguments.form, false);
  return arguments;
}

template <int (*kAct)(const ChangeArguments&, const Session&)>
int run_change(const ChangeArguments& given) {
  return run_on_cluster(given.cluster,
                        [&](const Session& session) { return kAct(given, session); });
}

}  // namespace

int suspend_jobs(const ChangeArguments& arguments, const Session& session) {
  return patch_jobs(arguments, session, {{"suspend", true}}, "suspended");
}

int resume_jobs(const ChangeArguments& arguments, const Session& session) {
  return patch_jobs(arguments, session, {{"suspend", false}}, "resumed");
}

int scale_jobs(const ChangeArguments& arguments, const Session& session) {
  return patch_jobs(arguments, session, {{"ranks", arguments.ranks}},
                    "scaled to " + std::to_string(arguments.ranks));
}

void add_suspend(CLI::App& app, int& status) {
  add_change(app, status, "suspend", "save a checkpoint and stop all ranks",
             run_change<suspend_jobs>);
}

void add_resume(CLI::App& app, int& status) {
  add_change(app, status, "resume", "let suspended jobs go on", run_change<resume_jobs>);
}

void add_scale(CLI::App& app, int& status) {
  ChangeArguments& arguments =
      add_change(app, status, "scale", "change the number of ranks: checkpoint, stop, go on",
                 run_change<scale_jobs>);
  CLI::App* const verb = app.get_subcommand("scale");
  verb->footer(
      "Example: lockstep scale JOB --ranks 8. Any number that divides the micro-batches does.");
  verb->add_option("--ranks,--replicas", arguments.ranks, "how many there are to be")
      ->required()
      ->check(CLI::PositiveNumber)
      ->type_name("N");
}

}  // namespace lockstep::cli
