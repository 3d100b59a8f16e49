// lockstep-operator: turns TrainingJobs into pods.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <malloc.h>
#include <sys/signalfd.h>

#include "operator/controller/controller.h"
#include "operator/kube/in_cluster.h"
#include "operator/kube/kubeconfig.h"
#include "runtime/common/log.h"

namespace {

namespace common = lockstep::common;
namespace control = lockstep::control;
namespace kube = lockstep::kube;

// Blocks SIGTERM and SIGINT in every thread started after this, and returns a descriptor that is
// readable once one arrives.
int block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

common::Result<kube::ClientConfig> load_cluster(const std::string& kubeconfig,
                                                const std::string& context) {
  const bool explicit_file = !kubeconfig.empty() || !context.empty();
  if (!explicit_file && kube::is_in_cluster(kube::read_env)) {
    return kube::load_in_cluster(kube::read_env, kube::read_file);
  }
  return kube::load_kubeconfig({kubeconfig, context}, kube::read_env, kube::read_file);
}

// The flags of Kubernetes' own components, with durations as they write them.
void add_election_options(CLI::App& app, control::LeadershipOptions& options) {
  app.add_flag("--leader-elect", options.enabled,
               "act only while this process leads, by a Lease; for more than one replica");
  app.add_option("--leader-elect-resource-namespace", options.ns,
                 "namespace of the Lease; default: that of the credentials");
  app.add_option("--leader-elect-resource-name", options.name, "name of the Lease");
  const auto add_time = [&app](const char* name, std::chrono::milliseconds& time,
                               const char* what) {
    app.add_option_function<int64_t>(
           name, [&time](int64_t ms) { time = std::chrono::milliseconds(ms); }, what)
        ->transform(CLI::AsNumberWithUnit(
            std::map<std::string, int64_t>{{"ms", 1}, {"s", 1000}, {"m", 60'000}},
            CLI::AsNumberWithUnit::UNIT_REQUIRED, "DURATION"));
  };
  add_time("--leader-elect-lease-duration", options.settings.lease_duration,
           "how long others wait for a silent leader, e.g. 15s");
  add_time("--leader-elect-renew-deadline", options.settings.renew_deadline,
           "a leader that could not renew the Lease for this long ends, e.g. 10s");
  add_time("--leader-elect-retry-period", options.settings.retry_period,
           "between two tries to get or renew the Lease, e.g. 2s");
}

// Which jobs, and in what.
void add_job_options(CLI::App& app, control::ControllerOptions& options) {
  app.add_option("--namespace", options.namespaces,
                 "watch this namespace only; repeat it for several; default: all")
      ->allow_extra_args(false);
  app.add_option("--runtime-image", options.settings.runtime_image, "image of jobs that name none")
      ->envname("LOCKSTEP_RUNTIME_IMAGE");
  app.add_option("--gpu-runtime-image", options.settings.gpu_runtime_image,
                 "image of those that ask for nvidia.com/...; default: --runtime-image")
      ->envname("LOCKSTEP_GPU_RUNTIME_IMAGE");
}

common::Result<void> check_namespaces(std::vector<std::string> namespaces) {
  std::sort(namespaces.begin(), namespaces.end());
  const auto twice = std::adjacent_find(namespaces.begin(), namespaces.end());
  if (twice != namespaces.end()) {
    return common::Error{common::ErrorCode::kInvalidArgument,
                         "--namespace " + *twice + " is given twice", "give each once"};
  }
  if (!namespaces.empty() && namespaces.front().empty()) {
    return common::Error{common::ErrorCode::kInvalidArgument, "--namespace is empty",
                         "leave it out to watch all namespaces"};
  }
  return {};
}

int fail(const common::Error& error) {
  std::cerr << "lockstep-operator: " << error.message;
  if (!error.hint.empty()) std::cerr << " (" << error.hint << ")";
  std::cerr << "\n";
  return 1;
}

int run(int argc, char** argv) {
  // Few threads allocate at once; an arena for each would double the resident memory.
  mallopt(M_ARENA_MAX, 2);
  CLI::App app("Watches TrainingJobs and runs their ranks in pods.", "lockstep-operator");
  std::string kubeconfig;
  std::string context;
  control::ControllerOptions options;
  app.add_option("--kubeconfig", kubeconfig,
                 "default: the service account, $KUBECONFIG, ~/.kube/config");
  app.add_option("--context", context, "context of the kubeconfig");
  add_job_options(app, options);
  app.add_option("--listen", options.listen_address, "address of /metrics, /healthz and /readyz");
  app.add_option("--port", options.port, "port of /metrics, /healthz and /readyz; 0 = any")
      ->check(CLI::Range(0, 65535));
  app.add_option("--workers", options.num_workers, "jobs reconciled at once")
      ->check(CLI::Range(1, 64));
  int64_t request_seconds = options.request_timeout.count();
  int64_t watch_seconds = options.watch_timeout.count();
  app.add_option("--request-timeout", request_seconds, "seconds for the API server's whole answer")
      ->check(CLI::Range(1, 3600));
  app.add_option("--watch-timeout", watch_seconds,
                 "seconds that a watch lasts at least, and may be silent; less than what a proxy "
                 "or load balancer on the way allows an idle connection")
      ->check(CLI::Range(1, 3600));
  bool ignores_nodes = false;
  app.add_flag("--without-nodes", ignores_nodes,
               "do not watch nodes: for an operator without rights outside its namespace; a lost "
               "node is then acted on only once its pods are deleted");
  add_election_options(app, options.leadership);
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  CLI11_PARSE(app, argc, argv);

  const common::Result<void> checked = check_namespaces(options.namespaces);
  if (!checked) return fail(checked.error());
  options.request_timeout = std::chrono::seconds(request_seconds);
  options.watch_timeout = std::chrono::seconds(watch_seconds);
  const common::Result<kube::ClientConfig> cluster = load_cluster(kubeconfig, context);
  if (!cluster) return fail(cluster.error());
  options.cluster = *cluster;
  options.watches_nodes = !ignores_nodes;
  const common::Result<void> ran = control::run_controller(options, block_signals());
  return ran ? 0 : fail(ran.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-operator: %s\n", error.what());
    return 1;
  }
}
