// The operator: watches, queue, workers and HTTP endpoints, wired together.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/controller/leadership.h"
#include "operator/kube/client_config.h"
#include "operator/kube/http_client.h"
#include "operator/plan/plan.h"
#include "runtime/common/result.h"

namespace lockstep::control {

struct ControllerOptions {
  kube::ClientConfig cluster;
  std::vector<std::string> namespaces;  // to watch, each once; empty = all
  plan::Settings settings;
  std::string listen_address = "0.0.0.0";
  int port = 8080;  // /metrics, /healthz, /readyz; 0 = any free port, which is logged
  int num_workers = 4;
  bool watches_nodes = true;  // needs the right to list nodes, which are not of any namespace
  std::chrono::milliseconds progress_interval{2000};
  std::chrono::seconds request_timeout{65};  // for a whole answer; the server's own limit is 60 s
  // A watch lasts 1 to 2 times this, and this plus 5 s may pass before a silent one is given up.
  std::chrono::seconds watch_timeout{300};
  // Off: no other operator may look after the same jobs.
  LeadershipOptions leadership;
  // How the API server is reached; a test puts a client here that dies at a chosen write.
  std::function<common::Result<std::unique_ptr<kube::Client>>(const kube::ClientConfig&,
                                                              kube::HttpClientOptions)>
      connect = kube::make_http_client;
};

// Runs until `signal_fd` is readable (a signalfd of SIGTERM and SIGINT), then lets the reconciles
// under way finish, at most 10 s, and hands the lead on. With leader election it watches from the
// start, and acts only while it leads. Errors: the API server's address or credentials cannot be
// used, the port is taken; kUnavailable: the lead was lost, after which only a new process may try
// again, for nothing is known of the world any more.
common::Result<void> run_controller(const ControllerOptions& options, int signal_fd);

}  // namespace lockstep::control
