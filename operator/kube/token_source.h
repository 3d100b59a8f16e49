// A bearer token that may be rotated under us.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/kube/client_config.h"
#include "operator/kube/mutex.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

// Safe to call from several threads.
class TokenSource {
 public:
  using Clock = std::chrono::steady_clock;

  // The file, if named, beats the fixed token. Both empty: no token at all.
  TokenSource(std::string fixed_token, std::string token_file, FileReader reader);

  // The token to send now; empty means none. The file is read again 50 s after the last reading
  // (client-go: 1 min less 10 s); a failed reading keeps the token we have.
  // kPermissionDenied if there never was a token in the file.
  common::Result<std::string> token(Clock::time_point now);

  // The server refused the token: the next call reads the file again.
  void invalidate();

 private:
  const std::string fixed_token_;
  const std::string token_file_;
  const FileReader reader_;
  Mutex mutex_;
  std::string current_ GUARDED_BY(mutex_);
  std::optional<Clock::time_point> read_at_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::kube
