// process-kubelet: see kubelet.h. Runs until SIGTERM.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include <CLI/CLI.hpp>

#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"
#include "tests/support/process_kubelet/kubelet.h"

namespace {

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) {
  stop_requested = 1;
}

int run(const std::string& kubeconfig, const lockstep::testing::KubeletOptions& options) {
  using namespace lockstep;
  const auto config = kube::load_kubeconfig({kubeconfig, ""}, kube::read_env, kube::read_file);
  if (!config) {
    std::cerr << "process-kubelet: " << config.error().message << "\n";
    return 1;
  }
  kube::HttpClientOptions client_options;
  client_options.field_manager = "process-kubelet";
  auto client = kube::make_http_client(*config, client_options);
  if (!client) {
    std::cerr << "process-kubelet: " << client.error().message << "\n";
    return 1;
  }
  testing::ProcessKubelet kubelet(**client, options);
  const auto pause = std::chrono::milliseconds(50);
  while (stop_requested == 0 && !kubelet.register_node()) std::this_thread::sleep_for(pause);
  while (stop_requested == 0) {
    kubelet.sync();
    std::this_thread::sleep_for(pause);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs the pods of an API server as local processes, for tests.");
  std::string kubeconfig;
  lockstep::testing::KubeletOptions options;
  options.working_dir = std::filesystem::current_path();
  app.add_option("--kubeconfig", kubeconfig, "of the API server")->required();
  app.add_option("--state", options.state_dir, "folder for logs, volumes and process ids")
      ->required();
  app.add_option("--bin", options.bin_dir, "first in the pods' PATH")->required();
  app.add_option("--library", options.library_dir, "host folder that pods see as it is");
  app.add_option("--workdir", options.working_dir, "working folder of pods");
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, request_stop);
  std::signal(SIGINT, request_stop);
  return run(kubeconfig, options);
}
