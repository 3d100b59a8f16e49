#include "operator/controller/controller.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include <poll.h>

#include "operator/controller/cluster_view.h"
#include "operator/controller/controller_metrics.h"
#include "operator/controller/health.h"
#include "operator/controller/leadership.h"
#include "operator/controller/progress_poller.h"
#include "operator/controller/reconciler.h"
#include "operator/kube/mutex.h"
#include "operator/kube/work_queue.h"
#include "runtime/common/http_server.h"
#include "runtime/common/log.h"
#include "runtime/common/status_client.h"
#include "runtime/common/suggest.h"

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

// What the rest of the operator waits for.
enum class Wakeup { kNothing, kSignal, kNews };

// `news_fd`: -1 = there are none.
Wakeup wait_for(int signal_fd, int news_fd, std::chrono::milliseconds timeout) {
  pollfd watched[] = {{signal_fd, POLLIN, 0}, {news_fd, POLLIN, 0}};
  if (poll(watched, 2, static_cast<int>(timeout.count())) <= 0) return Wakeup::kNothing;
  return watched[0].revents != 0 ? Wakeup::kSignal : Wakeup::kNews;
}

common::HttpResponse answer(const Health& health) {
  return {health.ok ? 200 : 503, "text/plain", health.text};
}

// What the probes ask about; outlived by all that it borrows.
struct Probed {
  const ControllerMetrics& metrics;
  const ClusterView& view;
  const Leadership* leadership;  // null: no election
  const std::atomic<bool>& is_stopping;

  Vitals vitals() const {
    return {view.has_synced(), is_stopping, leadership ? leadership->vitals() : std::nullopt,
            metrics.longest_reconcile(ControllerMetrics::Clock::now())};
  }
};

Result<std::unique_ptr<common::HttpServer>> serve(const ControllerOptions& options,
                                                  const Probed& probed) {
  common::HttpServerOptions server;
  server.address = options.listen_address;
  server.port = options.port;
  server.routes["/metrics"] = [probed] {
    // Jobs are told of by one replica, so that sums over all replicas are right.
    const bool tells_jobs = !probed.leadership || probed.leadership->leads();
    return common::HttpResponse{
        200, common::kMetricsContentType,
        probed.metrics.text(tells_jobs ? probed.view.jobs() : std::vector<api::TrainingJob>())};
  };
  server.routes["/healthz"] = [probed] { return answer(check_liveness(probed.vitals())); };
  server.routes["/readyz"] = [probed] { return answer(check_readiness(probed.vitals())); };
  return common::HttpServer::start(std::move(server));
}

// Ends the workers; calls that hang are given up after kStopLimit. False if one was: whether what
// it asked for comes to be is not known then.
bool stop_workers(std::vector<std::jthread>& workers, std::stop_source& calls) {
  for (std::jthread& worker : workers) worker.request_stop();
  kube::Mutex mutex;
  std::condition_variable_any all_ended;
  bool ended = false;
  {
    const std::jthread limit([&] {
      const kube::MutexLock lock(mutex);
      if (!all_ended.wait_for(mutex, kStopLimit, [&ended] { return ended; })) calls.request_stop();
    });
    workers.clear();  // joins
    const kube::MutexLock lock(mutex);
    ended = true;
    all_ended.notify_all();
  }
  return !calls.stop_requested();
}

// Blocks until this process may act (kNews), or is to end (kSignal).
Wakeup await_lead(Leadership& leadership, int signal_fd) {
  leadership.start();
  while (true) {
    const Wakeup why = wait_for(signal_fd, leadership.news_fd(), std::chrono::hours(1));
    if (why == Wakeup::kSignal) return why;
    if (why == Wakeup::kNews && leadership.news() != kube::LeaderElector::State::kWaiting) {
      return why;
    }
  }
}

// Blocks until a signal, or until the lead is lost.
Wakeup await_end(Leadership* leadership, int signal_fd) {
  const int news_fd = leadership ? leadership->news_fd() : -1;
  while (true) {
    if (leadership && leadership->news() == kube::LeaderElector::State::kLost) {
      return Wakeup::kNews;
    }
    if (wait_for(signal_fd, news_fd, std::chrono::hours(1)) == Wakeup::kSignal) {
      return Wakeup::kSignal;
    }
  }
}

kube::HttpClientOptions client_options(const ControllerOptions& options, ControllerMetrics& metrics,
                                       Leadership* leadership, const std::stop_source& calls) {
  kube::HttpClientOptions client;
  client.observer = metrics.request_observer();
  client.request_timeout = options.request_timeout;
  client.stop = calls.get_token();
  if (leadership) client.may_write = [leadership] { return leadership->may_write(); };
  return client;
}

struct Acting {
  int num_workers = 0;
  kube::WorkQueue& queue;
  Reconciler& reconciler;
  ControllerMetrics& metrics;
  Leadership* leadership = nullptr;  // no election
  std::atomic<bool>& is_stopping;
  std::stop_source& calls;
};

// Waits for the lead, and reconciles until a signal, or until the lead is lost.
Result<void> act(const Acting& parts, int signal_fd) {
  Leadership* const leadership = parts.leadership;
  Wakeup end = leadership ? await_lead(*leadership, signal_fd) : Wakeup::kNews;
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(parts.num_workers));
  if (end != Wakeup::kSignal) {
    for (int i = 0; i < parts.num_workers; ++i) {
      workers.emplace_back([&parts](const std::stop_token& stop) {
        work(parts.queue, parts.reconciler, parts.metrics, stop);
      });
    }
    end = await_end(leadership, signal_fd);
  }
  parts.is_stopping = true;
  common::Log().info("stopping");
  // Who has lost the lead gives up what is under way at once.
  if (end == Wakeup::kNews) parts.calls.request_stop();
  const bool all_ended = stop_workers(workers, parts.calls);
  if (end == Wakeup::kNews) {
    return common::Error{common::ErrorCode::kUnavailable,
                         "leader election lost: " + leadership->why_lost(), ""};
  }
  // A write whose answer was not waited for may still arrive: then others wait for the Lease's end.
  if (leadership && all_ended) leadership->release();
  return {};
}

}  // namespace

Result<void> run_controller(const ControllerOptions& options, int signal_fd) {
  const common::Log log;
  ControllerMetrics metrics(options.num_workers);
  std::unique_ptr<Leadership> leadership;  // null: no election
  if (options.leadership.enabled) {
    ASSIGN_OR_RETURN(leadership, Leadership::make(options.cluster, options.leadership, metrics));
  }
  std::stop_source calls;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<kube::Client> client,
      options.connect(options.cluster, client_options(options, metrics, leadership.get(), calls)));

  kube::WorkQueue queue({.max_backoff = kMaxBackoff}, metrics.queue_observer());
  const auto wake = [&queue](const kube::ObjectKey& job) { queue.add(job); };
  ProgressPoller progress(
      {.interval = options.progress_interval},
      [](const ProgressTarget& target) {
        return common::fetch_status({target.host, target.port, target.path}, kStatusTimeout);
      },
      wake);
  ClusterView view(
      *client, {options.namespaces,
                wake,
                [&log](const std::string& message) {
                  log.warning("watch_trouble", {{"message", message}});
                },
                options.watches_nodes,
                {.initial_limit = options.request_timeout, .min_watch = options.watch_timeout}});
  std::atomic<bool> is_stopping = false;
  ASSIGN_OR_RETURN(const std::unique_ptr<common::HttpServer> server,
                   serve(options, {metrics, view, leadership.get(), is_stopping}));
  log.info("started", {{"server", options.cluster.server},
                       {"namespaces",
                        options.namespaces.empty() ? "all" : common::join(options.namespaces, ",")},
                       {"lost_nodes_seen_by", options.watches_nodes ? "nodes" : "deleted pods"},
                       {"port", server->port()}});
  // Each namespace is decided about once its own stores are complete (Reconciler).
  while (!view.has_synced()) {
    if (wait_for(signal_fd, -1, kSyncPoll) == Wakeup::kSignal) return {};
  }
  log.info("synced", {{"jobs", view.jobs().size()}});
  Reconciler reconciler(*client, view, progress, {options.settings, api::wall_clock});
  return act(
      {options.num_workers, queue, reconciler, metrics, leadership.get(), is_stopping, calls},
      signal_fd);
}

}  // namespace lockstep::control
