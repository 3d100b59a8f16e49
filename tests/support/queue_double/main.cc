// queue-double: see queue_double.h. Runs until SIGTERM.
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"
#include "tests/support/queue_double/queue_double.h"

namespace {

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) {
  stop_requested = 1;
}

int run(const std::string& kubeconfig, const lockstep::testing::QueueOptions& options) {
  using namespace lockstep;
  const auto config = kube::load_kubeconfig({kubeconfig, ""}, kube::read_env, kube::read_file);
  if (!config) {
    std::cerr << "queue-double: " << config.error().message << "\n";
    return 1;
  }
  kube::HttpClientOptions client_options;
  client_options.field_manager = "queue-double";
  auto client = kube::make_http_client(*config, client_options);
  if (!client) {
    std::cerr << "queue-double: " << client.error().message << "\n";
    return 1;
  }
  testing::QueueDouble queue(**client, options);
  while (stop_requested == 0) {
    queue.sync();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plays Kueue for the pods of one namespace, for tests.");
  std::string kubeconfig;
  lockstep::testing::QueueOptions options;
  app.add_option("--kubeconfig", kubeconfig, "of the API server")->required();
  app.add_option("--namespace", options.ns, "of the pods")->required();
  app.add_option("--queue", options.queue, "name of the LocalQueue")->required();
  app.add_option("--quota", options.quota, "pods")->required();
  app.add_option("--orders", options.orders_dir, "folder: closed, preempt-GROUP")->required();
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, request_stop);
  std::signal(SIGINT, request_stop);
  return run(kubeconfig, options);
}
