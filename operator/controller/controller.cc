#include "operator/controller/controller.h"

#include <condition_variable>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include <poll.h>

#include "operator/controller/cluster_view.h"
#include "operator/controller/controller_metrics.h"
#include "operator/controller/progress_poller.h"
#include "operator/controller/reconciler.h"
#include "operator/kube/mutex.h"
#include "operator/kube/work_queue.h"
#include "runtime/common/http_server.h"
#include "runtime/common/log.h"
#include "runtime/common/status_client.h"

namespace lockstep::control {

namespace {

using common::Result;

constexpr std::chrono::milliseconds kStatusTimeout{1000};
constexpr std::chrono::milliseconds kSyncPoll{20};
// How long the reconciles under way may take at the end.
constexpr std::chrono::seconds kStopLimit{10};
// A job whose writes failed through an outage is tried again this long after it at the latest.
constexpr std::chrono::minutes kMaxBackoff{1};

// Hands jobs from the queue to the reconciler until stop.
void work(kube::WorkQueue& queue, Reconciler& reconciler, ControllerMetrics& metrics,
          const std::stop_token& stop) {
  const common::Log log;
  while (const std::optional<kube::ObjectKey> key = queue.get(stop)) {
    const auto begin = ControllerMetrics::Clock::now();
    metrics.on_work(begin);
    const auto finish = [&](ReconcileResult result) {
      metrics.on_reconcile(result, begin, ControllerMetrics::Clock::now());
    };
    Result<Outcome> outcome = Outcome::await_change();
    try {
      outcome = reconciler.reconcile(*key);
    } catch (const std::exception& error) {  // our mistake: count it, keep the other jobs alive
      outcome = common::Error{common::ErrorCode::kInternal, error.what(), ""};
    }
    if (!outcome) {
      finish(ReconcileResult::kError);
      // A conflict is ordinary news: the job has changed, and its change is on the way to us.
      if (outcome.error().code != common::ErrorCode::kConflict) {
        log.warning("reconcile_failed",
                    {{"job", kube::to_string(*key)}, {"error", outcome.error().message}});
      }
      queue.add_rate_limited(*key);
    } else {
      queue.forget(*key);
      finish(outcome->requeue_after ? ReconcileResult::kRequeueAfter : ReconcileResult::kSuccess);
      if (outcome->requeue_after) queue.add_after(*key, *outcome->requeue_after);
    }
    queue.done(*key);
  }
}

bool wait_for_signal(int signal_fd, std::chrono::milliseconds timeout) {
  pollfd watched{signal_fd, POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(timeout.count())) > 0;
}

Result<std::unique_ptr<common::HttpServer>> serve(const ControllerOptions& options,
                                                  ControllerMetrics& metrics,
                                                  const ClusterView& view) {
  common::HttpServerOptions server;
  server.address = options.listen_address;
  server.port = options.port;
  server.routes["/metrics"] = [&metrics, &view] {
    return common::HttpResponse{200, common::kMetricsContentType, metrics.text(view.jobs())};
  };
  server.routes["/healthz"] = [] { return common::HttpResponse{200, "text/plain", "ok\n"}; };
  server.routes["/readyz"] = [&view] {
    return view.has_synced() ? common::HttpResponse{200, "text/plain", "ok\n"}
                             : common::HttpResponse{503, "text/plain", "watches have not synced\n"};
  };
  return common::HttpServer::start(std::move(server));
}

// Ends the workers; calls that hang are given up after kStopLimit.
void stop_workers(std::vector<std::jthread>& workers, std::stop_source& calls) {
  for (std::jthread& worker : workers) worker.request_stop();
  kube::Mutex mutex;
  std::condition_variable_any all_ended;
  bool ended = false;
  const std::jthread limit([&] {
    const kube::MutexLock lock(mutex);
    if (!all_ended.wait_for(mutex, kStopLimit, [&ended] { return ended; })) calls.request_stop();
  });
  workers.clear();  // joins
  const kube::MutexLock lock(mutex);
  ended = true;
  all_ended.notify_all();
}

}  // namespace

Result<void> run_controller(const ControllerOptions& options, int signal_fd) {
  const common::Log log;
  ControllerMetrics metrics(options.num_workers);
  kube::HttpClientOptions client_options;
  client_options.observer = metrics.request_observer();
  client_options.request_timeout = options.request_timeout;
  std::stop_source calls;
  client_options.stop = calls.get_token();
  ASSIGN_OR_RETURN(const std::unique_ptr<kube::Client> client,
                   options.connect(options.cluster, client_options));

  kube::WorkQueue queue({.max_backoff = kMaxBackoff}, metrics.queue_observer());
  const auto wake = [&queue](const kube::ObjectKey& job) { queue.add(job); };
  ProgressPoller progress(
      {.interval = options.progress_interval},
      [](const ProgressTarget& target) {
        return common::fetch_status({target.host, target.port, target.path}, kStatusTimeout);
      },
      wake);
  ClusterView view(
      *client, {options.ns,
                wake,
                [&log](const std::string& message) {
                  log.warning("watch_trouble", {{"message", message}});
                },
                options.watches_nodes,
                {.initial_limit = options.request_timeout, .min_watch = options.watch_timeout}});
  ASSIGN_OR_RETURN(const std::unique_ptr<common::HttpServer> server, serve(options, metrics, view));
  log.info("started", {{"server", options.cluster.server},
                       {"namespace", options.ns.empty() ? "all" : options.ns},
                       {"port", server->port()}});
  // No decision before every store is complete: half a view looks like deleted pods.
  while (!view.has_synced()) {
    if (wait_for_signal(signal_fd, kSyncPoll)) return {};
  }
  log.info("synced", {{"jobs", view.jobs().size()}});

  Reconciler reconciler(*client, view, progress, {options.settings, api::wall_clock});
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(options.num_workers));
  for (int i = 0; i < options.num_workers; ++i) {
    workers.emplace_back(
        [&](const std::stop_token& stop) { work(queue, reconciler, metrics, stop); });
  }
  while (!wait_for_signal(signal_fd, std::chrono::hours(1))) {
  }
  log.info("stopping");
  stop_workers(workers, calls);
  return {};
}

}  // namespace lockstep::control
