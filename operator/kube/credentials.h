// Whom we trust and who we are, while files rotate under us.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "operator/kube/client_config.h"
#include "operator/kube/exec_plugin.h"
#include "operator/kube/http_connection.h"
#include "operator/kube/mutex.h"
#include "operator/kube/token_source.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

// What one request goes out with.
struct Identity {
  std::shared_ptr<const Endpoint> endpoint;
  std::string token;  // bearer; empty = none
  bool operator==(const Identity&) const = default;
};

// What an exec plugin gave, and gives again once that has expired or was refused. Safe to call from
// several threads: one of them runs the plugin, the others wait for it.
class ExecSource {
 public:
  using Run = std::function<common::Result<ExecCredential>(const std::stop_token&)>;

  explicit ExecSource(Run run) : run_(std::move(run)) {}

  // The credential to use at `now`; blocks while the plugin runs. It is run again in the last tenth
  // of the credential's life (at most a minute before its end). A failure is told again for 10 s
  // before the next try; that the plugin was stopped is no failure of it, and forgotten.
  common::Result<ExecCredential> current(ExecCredential::Time now,
                                         const std::stop_token& stop = {});

  // The server refused it. Ignored for 10 s after the plugin has run: it would say the same again.
  void refused(ExecCredential::Time now);

 private:
  bool must_run(ExecCredential::Time now) const REQUIRES(mutex_);

  const Run run_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool is_running_ GUARDED_BY(mutex_) = false;
  std::optional<common::Result<ExecCredential>> last_ GUARDED_BY(mutex_);
  ExecCredential::Time ran_at_ GUARDED_BY(mutex_);
  bool was_refused_ GUARDED_BY(mutex_) = false;
};

// Safe to call from several threads.
class Credentials {
 public:
  using Clock = std::chrono::steady_clock;

  // `base` is completed by the certificates of `config`. kInvalidArgument if one cannot be used.
  static common::Result<std::unique_ptr<Credentials>> make(const ClientConfig& config,
                                                           Endpoint base, FileReader reader);

  // What to send now. Certificates are read again a minute after the last reading; a file that
  // cannot be read or used keeps what we have. Blocks while an exec plugin runs, at most 60 s and
  // until `stop` is requested. kPermissionDenied if there is no token to be had.
  common::Result<Identity> current(Clock::time_point now, const std::stop_token& stop = {});

  // The server answered 401, or was not vouched for: the next call reads everything again.
  void invalidate();

 private:
  Credentials(const ClientConfig& config, std::shared_ptr<const Endpoint> endpoint,
              FileReader reader);
  void reread_certificates(Clock::time_point now);
  // Puts the plugin's credential in place of what the files gave.
  common::Result<void> use_plugin(Identity& identity, const std::stop_token& stop);

  const FileReader reader_;
  TokenSource tokens_;
  std::unique_ptr<ExecSource> plugin_;  // null: none
  mutable Mutex mutex_;
  std::shared_ptr<const Endpoint> endpoint_ GUARDED_BY(mutex_);
  // `endpoint_` with the plugin's certificate: made anew whenever one of the two changes.
  std::shared_ptr<const Endpoint> plugin_base_ GUARDED_BY(mutex_);
  std::shared_ptr<const Endpoint> plugin_endpoint_ GUARDED_BY(mutex_);
  std::optional<Clock::time_point> read_at_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::kube
