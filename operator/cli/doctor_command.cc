#include "operator/cli/doctor_command.h"

#include <algorithm>
#include <iostream>

#include "operator/cli/cluster_doctor.h"
#include "operator/cli/cluster_session.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/machine_input.h"
#include "operator/cli/verb.h"
#include "operator/kube/client_config.h"
#include "operator/local/localize.h"
#include "operator/machine/examine.h"
#include "runtime/common/teacher_model.h"

namespace lockstep::cli {
namespace {

using machine::Finding;
using nlohmann::json;

struct DoctorArguments {
  ManifestArguments manifest;  // without a file: no job
  MachineArguments machine;
  ClusterArguments cluster;
  std::string output_folder;  // empty: the job's
  std::string lease;          // NAMESPACE/NAME
  bool asks_cluster = false;
  bool is_json = false;
};

int64_t written_bytes(const common::TrainConfig& train) {
  const int64_t weights = 4 * common::num_parameters(train.model);
  const int64_t checkpoint = weights * (1 + common::num_moments(train.optimizer));
  return checkpoint * (train.checkpoint.keep + 1) + weights;
}

// What a job that is valid wants; without its own training only the ranks are known.
machine::Needs needs_of(const api::TrainingJob& job, const std::string& file) {
  machine::Needs needs;
  needs.file = file;
  needs.ranks = job.spec.ranks;
  needs.shared_memory_bytes = common::shared_memory_bytes(needs.ranks);
  if (job.spec.train.is_null()) return needs;
  const auto complete = common::complete_train(job.spec.train, job.spec.ranks);
  if (!complete) return needs;
  const auto decoded = common::decode_with_teacher(*complete);
  if (!decoded) return needs;
  const common::TrainConfig& train = *decoded;
  const EstimateReport report = estimate_job(job.meta.name, train, needs.ranks, {});
  for (const StrategyEstimate& line : report.strategies) {
    if (line.chosen) needs.rank_bytes = line.memory.total();
  }
  needs.rank_counts = common::rank_counts_for(train.batch.num_micro_batches());
  needs.output_bytes = written_bytes(train);
  return needs;
}

// Without a job: a rank for every core.
machine::Needs needs_of_any(const machine::MachineFacts& facts) {
  machine::Needs needs;
  needs.ranks = std::max<int64_t>(2, facts.cpu.num_cores);
  needs.shared_memory_bytes = common::shared_memory_bytes(needs.ranks);
  return needs;
}

int tell(const std::vector<Finding>& findings, bool is_json) {
  if (is_json) {
    json list = json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"check", finding.check},
                      {"wrong", finding.is_wrong},
                      {"found", finding.text},
                      {"next", finding.is_wrong ? json(finding.next) : json()}});
    }
    std::cout << json{{"findings", std::move(list)}}.dump(2) << "\n";
  } else {
    std::cout << machine::findings_text(findings);
  }
  return machine::is_anything_wrong(findings) ? kFailed : kOk;
}

int examine_machine(const DoctorArguments& given) {
  MachineArguments where = given.machine;
  std::optional<machine::Needs> needs;
  if (!given.manifest.file.empty()) {
    const std::optional<api::Manifest> manifest =
        load_and_report(given.manifest, MissingInputs::kWarn);
    if (!manifest) return kInvalidFile;
    needs = needs_of(manifest->job, given.manifest.file);
    where.output = local::default_output(manifest->job);
  }
  if (!given.output_folder.empty()) where.output = given.output_folder;
  const machine::MachineFacts facts = facts_of_machine(where);
  if (!needs) needs = needs_of_any(facts);
  needs->on_gpus = kube::read_env("LOCKSTEP_DEVICE").value_or("").starts_with("cuda");
  return tell(machine::examine(facts, *needs), given.is_json);
}

int examine_cluster(const DoctorArguments& given) {
  const ClusterDoctorOptions options{.lease = given.lease, .version = given.machine.version};
  return run_on_cluster(given.cluster, [&](const Session& session) {
    return tell(judge_cluster(observe_cluster(session, options)), given.is_json);
  });
}

int doctor(const DoctorArguments& given) {
  return given.asks_cluster ? examine_cluster(given) : examine_machine(given);
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("doctor", "say what is wrong here, or with a cluster");
  verb.group(kMachineGroup);
  DoctorArguments& arguments = run_when_parsed(verb, status, doctor);
  arguments.machine.version = app.version();
  verb.add_option("file", arguments.manifest.file, "a job, to judge by what it wants")
      ->type_name("FILE");
  add_sets(verb, arguments.manifest.sets, "set a field of the job; may be repeated");
  verb.add_option("--output-folder", arguments.output_folder,
                  "where runs are written to; default runs, or the job's")
      ->type_name("FOLDER");
  verb.add_option("--master", arguments.machine.master, "the host to be reached")
      ->type_name("HOST");
  verb.add_option("--port", arguments.machine.ports, "a port that must be free; may be repeated")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535))
      ->allow_extra_args(false);
  CLI::Option* const cluster =
      verb.add_flag("--cluster", arguments.asks_cluster, "judge a cluster, not this machine");
  verb.add_option("--lease", arguments.lease, "of an operator that no Deployment tells of")
      ->type_name("NAMESPACE/NAME")
      ->needs(cluster);
  add_cluster_arguments(verb, arguments.cluster);
  verb.add_option_function<std::string>(
          "--output", [&arguments](const std::string& form) { arguments.is_json = form == "json"; },
          "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "Every finding has one next command. Exit status: 0 nothing is wrong; 1 something is;\n"
      "3 the job's manifest is; 8 no kubeconfig names a cluster.");
}

}  // namespace lockstep::cli
