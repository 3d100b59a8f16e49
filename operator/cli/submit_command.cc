// lockstep submit: a manifest's job into a cluster, checked here first.
#include <iostream>
#include <map>

#include "operator/api/codec.h"
#include "operator/api/manifest.h"
#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "operator/plan/status.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

// Prints problems, with file and line; false if one of them is an error.
bool report(const api::Manifest& manifest, const std::string& file, const Session& session) {
  for (const common::Problem& problem : manifest.problems) {
    session.err << (problem.warning ? "" : "error: ") << common::to_string(problem, file) << "\n";
  }
  return !common::has_errors(manifest.problems);
}

bool is_finished(const json& object) {
  const json status = object.value("status", json::object());
  return plan::is_finished(api::decode_status(status));
}

int exit_of(const Session& session, const std::string& name) {
  const auto answer = session.client.get(job_path(session.ns, name));
  const auto* object = std::get_if<json>(&answer);
  if (object == nullptr) {
    return complain(session, std::get<kube::ApiError>(answer), {.verb = "get", .name = name});
  }
  const api::TrainingJobStatus status = api::decode_status(object->value("status", json::object()));
  if (plan::is_true(status, plan::kSucceeded)) return kOk;
  session.err << "error: the job failed";
  if (status.first_failure) session.err << ": " << plan::summarize(*status.first_failure);
  session.err << " (lockstep describe " << name << " -n " << session.ns << ")\n";
  return kFailed;
}

}  // namespace

int submit_job(const SubmitArguments& arguments, const Session& session) {
  const common::Result<api::Manifest> loaded = api::load_manifest(arguments.file, arguments.sets);
  if (!loaded) {
    session.err << "error: " << loaded.error().message << "\n";
    return kInvalidFile;
  }
  if (!report(*loaded, arguments.file, session)) return kInvalidFile;
  if (loaded->num_other_documents > 0) {
    session.err << arguments.file << ": " << loaded->num_other_documents
                << " other documents are left to kubectl apply\n";
  }
  Session there = session;
  const std::string own_ns = loaded->metadata.value("namespace", "");
  if (arguments.cluster.ns.empty() && !own_ns.empty()) there.ns = own_ns;
  if (!arguments.cluster.ns.empty() && !own_ns.empty() && own_ns != there.ns) {
    session.err << "error: the manifest is of namespace " << own_ns << ", -n of " << there.ns
                << "\n";
    return kUsage;
  }
  const std::string& name = loaded->job.meta.name;
  json object = {{"apiVersion", api::kApiVersion},
                 {"kind", api::kKind},
                 {"metadata", loaded->metadata},
                 {"spec", loaded->spec}};
  object["metadata"]["namespace"] = there.ns;
  kube::Warnings warnings;
  const auto answer = there.client.create(job_path(there.ns, ""), object, warnings);
  for (const std::string& warning : warnings) there.err << "Warning: " << warning << "\n";
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    return complain(there, *error, {.verb = "create", .name = name});
  }
  if (arguments.form == OutputForm::kText) {
    there.out << "trainingjob.lockstep.dev/" << name << " created\n" << std::flush;
  } else {
    there.out << print_object(std::get<json>(answer), arguments.form) << std::flush;
  }
  if (!arguments.watch) return kOk;
  const int followed = follow_job(there, name, is_finished);
  return followed == kOk ? exit_of(there, name) : followed;
}

void add_submit(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("submit", "check a manifest and create its job");
  verb.group(kClusterGroup);
  verb.footer("Example: lockstep submit job.yaml -n training --set train.steps=50 --watch");
  SubmitArguments& arguments =
      run_when_parsed<SubmitArguments>(verb, status, [](const auto& given) {
        return run_on_cluster(given.cluster,
                              [&](const Session& session) { return submit_job(given, session); });
      });
  verb.add_option("file", arguments.file, "a TrainingJob, or a training configuration alone")
      ->required()
      ->type_name("FILE");
  add_sets(verb, arguments.sets, "set a field, e.g. train.steps=50; may be repeated");
  add_cluster_arguments(verb, arguments.cluster);
  add_output_form(verb, arguments.form, false);
  verb.add_flag("-w,--watch", arguments.watch,
                "print every change until the job ends; the exit status is the job's");
}

}  // namespace lockstep::cli
