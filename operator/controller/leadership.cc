#include "operator/controller/leadership.h"

#include <algorithm>
#include <array>
#include <utility>

#include <unistd.h>

#include "operator/controller/events.h"
#include "operator/kube/http_client.h"

namespace lockstep::control {

using kube::LeaderElector;

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "operator";
  return name.data();
}

}  // namespace

common::Result<std::unique_ptr<Leadership>> Leadership::make(const kube::ClientConfig& cluster,
                                                             LeadershipOptions options,
                                                             ControllerMetrics& metrics) {
  kube::ElectionSettings& settings = options.settings;
  RETURN_IF_ERROR(kube::check_settings(settings));
  if (settings.identity.empty()) settings.identity = kube::make_identity(host_name());
  if (options.ns.empty()) options.ns = cluster.ns;
  kube::HttpClientOptions client_options;
  client_options.observer = metrics.request_observer();
  // Two calls, a failed renewal and the one after it, fit into the deadline.
  client_options.request_timeout =
      std::max(settings.renew_deadline / 2, std::chrono::milliseconds(1000));
  client_options.connect_timeout = client_options.request_timeout;
  ASSIGN_OR_RETURN(std::unique_ptr<kube::Client> client,
                   kube::make_http_client(cluster, client_options));
  metrics.on_leader(options.name, false);
  return std::unique_ptr<Leadership>(
      new Leadership(std::move(client), std::move(options), metrics));
}

Leadership::Leadership(std::unique_ptr<kube::Client> client, LeadershipOptions options,
                       ControllerMetrics& metrics)
    : client_(std::move(client)),
      options_(std::move(options)),
      metrics_(metrics),
      log_({{"lease", options_.ns + "/" + options_.name},
            {"identity", options_.settings.identity}}) {}

void Leadership::start() {
  log_.info("election_started");
  kube::ElectorObserver observer;
  observer.on_holder = [this](const std::string& holder) {
    log_.info("leader_seen", {{"leader", holder}});
  };
  observer.on_slow_path = [this] { metrics_.on_leader_slow_path(options_.name); };
  observer.on_trouble = [this](const std::string& message) {
    log_.warning("election_trouble", {{"message", message}});
  };
  auto elector = std::make_unique<LeaderElector>(
      *client_, LeaderElector::Options{options_.settings, options_.ns, options_.name, observer});
  const kube::MutexLock lock(mutex_);
  elector_ = std::move(elector);
  has_started_ = true;
}

LeaderElector::State Leadership::news() {
  elector_->take_news();
  const LeaderElector::State now = elector_->state();
  if (std::exchange(told_, now) == now) return now;
  metrics_.on_leader(options_.name, now == LeaderElector::State::kLeading);
  if (now == LeaderElector::State::kLeading) {
    log_.info("leading");
    emit("became leader");
  } else if (now == LeaderElector::State::kLost) {
    log_.error("lead_lost", {{"why", elector_->why_lost()}});
  }
  return now;
}

bool Leadership::leads() const {
  const kube::MutexLock lock(mutex_);
  return has_started_ && elector_->fence().is_open();
}

bool Leadership::may_write() {
  const bool is_open = leads();
  if (!is_open) metrics_.on_fenced_write();
  return is_open;
}

void Leadership::release() {
  const bool released = elector_->release();
  if (told_ == LeaderElector::State::kLeading) emit("stopped leading");
  metrics_.on_leader(options_.name, false);
  log_.info("election_ended", {{"released", released ? "true" : "false"}});
  told_ = LeaderElector::State::kWaiting;
}

std::optional<Vitals::Election> Leadership::vitals() const {
  const std::chrono::seconds duration =
      std::chrono::duration_cast<std::chrono::seconds>(options_.settings.lease_duration);
  const kube::MutexLock lock(mutex_);
  if (!has_started_) return Vitals::Election{.lease_duration = duration};
  return Vitals::Election{elector_->since_answer(), elector_->since_turn(), duration};
}

// On the Lease, as client-go does. What comes of it changes nothing.
void Leadership::emit(const std::string& what) {
  const EventSubject lease{.api_version = "coordination.k8s.io/v1",
                           .kind = "Lease",
                           .name = options_.name,
                           .ns = options_.ns,
                           .uid = elector_->lease_uid()};
  const common::Result<void> emitted =
      emit_event(*client_, lease,
                 {.reason = "LeaderElection", .message = options_.settings.identity + " " + what},
                 api::wall_clock());
  if (!emitted) log_.warning("event_lost", {{"error", emitted.error().message}});
}

}  // namespace lockstep::control
