// Whom we trust and who we are, while files rotate under us.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "operator/kube/client_config.h"
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

// Safe to call from several threads.
class Credentials {
 public:
  using Clock = std::chrono::steady_clock;

  // `base` is completed by the certificates of `config`. kInvalidArgument if one cannot be used.
  static common::Result<std::unique_ptr<Credentials>> make(const ClientConfig& config,
                                                           Endpoint base, FileReader reader);

  // What to send now. Certificates are read again a minute after the last reading; a file that
  // cannot be read or used keeps what we have. kPermissionDenied if there is no token to be had.
  common::Result<Identity> current(Clock::time_point now);

  // The server answered 401, or was not vouched for: the next call reads everything again.
  void invalidate();

 private:
  Credentials(const ClientConfig& config, std::shared_ptr<const Endpoint> endpoint,
              FileReader reader);
  void reread_certificates(Clock::time_point now);

  const FileReader reader_;
  TokenSource tokens_;
  mutable Mutex mutex_;
  std::shared_ptr<const Endpoint> endpoint_ GUARDED_BY(mutex_);
  std::optional<Clock::time_point> read_at_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::kube
