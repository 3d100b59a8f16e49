// Keys and values that the ranks of an attempt share, held by a thread of rank 0's process.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/comm/key_server.h"

namespace lockstep::runtime {

// The store cannot be used any more: its process is gone.
class KeyStoreLostError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Nor can it then: its process does not answer, as one that is stopped.
class KeyStoreSilentError : public KeyStoreLostError {
  using KeyStoreLostError::KeyStoreLostError;
};

// One rank's connection to a KeyServer. Any thread may call it, but calls take turns: one that
// waits for a key keeps the others waiting, so a rank makes one group at a time.
class KeyClient {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // How long after its deadline an answer is still awaited: what the server itself says of a key
  // that nobody set comes first.
  static constexpr std::chrono::milliseconds kGrace{2000};

  // Takes `fd`, a connection to the server.
  explicit KeyClient(int fd);
  ~KeyClient();
  KeyClient(const KeyClient&) = delete;
  KeyClient& operator=(const KeyClient&) = delete;

  // Returns once the server has it. Blocks up to `deadline` and kGrace. Throws KeyStoreLostError or
  // KeyStoreSilentError, and after either all later calls the former.
  void set(const std::string& key, std::string_view value, Deadline deadline);

  // The value of `key` as soon as it has one; nothing if it has none at `deadline`. Blocks and
  // throws as set().
  std::optional<std::string> get(const std::string& key, Deadline deadline);

 private:
  std::optional<std::string> ask(char verb, const std::string& key, std::string_view value,
                                 Deadline deadline);

  std::mutex mutex_;
  int fd_;  // -1 once lost
};

// The keys of a store that start with a prefix.
class KeyStore {
 public:
  // server: of rank 0, which lives as long as any copy; null for the others.
  KeyStore(std::shared_ptr<KeyServer> server, std::shared_ptr<KeyClient> client, std::string prefix)
      : server_(std::move(server)), client_(std::move(client)), prefix_(std::move(prefix)) {}

  // The keys below "NAME/" of these.
  KeyStore under(std::string_view name) const {
    return {server_, client_, prefix_ + std::string(name) + "/"};
  }

  void set(const std::string& key, std::string_view value, KeyClient::Deadline deadline) const {
    client_->set(prefix_ + key, value, deadline);
  }
  std::optional<std::string> get(const std::string& key, KeyClient::Deadline deadline) const {
    return client_->get(prefix_ + key, deadline);
  }

 private:
  std::shared_ptr<KeyServer> server_;  // outlives the client
  std::shared_ptr<KeyClient> client_;
  std::string prefix_;
};

}  // namespace lockstep::runtime
