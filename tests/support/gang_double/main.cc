// gang-double: see gang_double.h. Plays all three schedulers, on one node; runs until SIGTERM.
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"
#include "tests/support/gang_double/gang_double.h"

namespace {

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) {
  stop_requested = 1;
}

int run(const std::string& kubeconfig, const lockstep::testing::GangOptions& options) {
  using namespace lockstep;
  const auto config = kube::load_kubeconfig({kubeconfig, ""}, kube::read_env, kube::read_file);
  if (!config) {
    std::cerr << "gang-double: " << config.error().message << "\n";
    return 1;
  }
  auto client = kube::make_http_client(*config, {.user_agent = "gang-double"});
  if (!client) {
    std::cerr << "gang-double: " << client.error().message << "\n";
    return 1;
  }
  using testing::GangDialect;
  std::vector<testing::GangDouble> schedulers;
  for (const GangDialect dialect :
       {GangDialect::kCoscheduling, GangDialect::kVolcano, GangDialect::kNative}) {
    schedulers.emplace_back(**client, dialect, options);
  }
  while (stop_requested == 0) {
    for (testing::GangDouble& scheduler : schedulers) scheduler.sync();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plays schedulers that know gangs for the pods of one namespace, for tests.");
  std::string kubeconfig;
  lockstep::testing::GangOptions options;
  app.add_option("--kubeconfig", kubeconfig, "of the API server")->required();
  app.add_option("--namespace", options.ns, "of the pods")->required();
  app.add_option("--node", options.node, "that gets all pods")->required();
  app.add_option("--rooms", options.rooms_dir, "folder: a file per scheduler, for how many pods")
      ->required();
  app.add_option("--coscheduling-name", options.coscheduling_name, "its schedulerName");
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, request_stop);
  std::signal(SIGINT, request_stop);
  return run(kubeconfig, options);
}
