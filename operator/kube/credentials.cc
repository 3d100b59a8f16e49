#include "operator/kube/credentials.h"

#include <algorithm>
#include <utility>

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::chrono::seconds kFilesReadPeriod{60};
constexpr std::chrono::seconds kPluginTimeout{60};
constexpr std::chrono::seconds kPluginPause{10};

// The content of `file` if it can be read and is not empty, else `text`.
std::string reread(const FileReader& reader, const std::string& file, const std::string& text) {
  if (file.empty()) return text;
  Result<std::string> fresh = reader(file);
  return fresh && !trim(*fresh).empty() ? std::move(fresh).value() : text;
}

bool has_same_texts(const TlsConfig& a, const TlsConfig& b) {
  return a.ca_pem == b.ca_pem && a.client_cert_pem == b.client_cert_pem &&
         a.client_key_pem == b.client_key_pem;
}

bool comes_from_files(const TlsConfig& tls) {
  return !tls.ca_file.empty() || !tls.client_cert_file.empty() || !tls.client_key_file.empty();
}

// `base` with `tls` in place of what it had. Everything that a connection could refuse later is
// refused here.
Result<std::shared_ptr<const Endpoint>> endpoint_with(const Endpoint& base, TlsConfig tls) {
  auto endpoint = std::make_shared<Endpoint>();
  endpoint->url = base.url;
  endpoint->proxy = base.proxy;
  endpoint->user_agent = base.user_agent;
  endpoint->connect_timeout = base.connect_timeout;
  ASSIGN_OR_RETURN(endpoint->material, load_tls(tls));
  endpoint->tls = std::move(tls);
  const auto probe = HttpConnection::make(endpoint);
  if (!probe) return probe.error();
  return std::shared_ptr<const Endpoint>(std::move(endpoint));
}

}  // namespace

Result<ExecCredential> ExecSource::current(ExecCredential::Time now, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.notify_all();
  });
  mutex_.lock();
  while (is_running_ && !stop.stop_requested()) changed_.wait(mutex_);
  if (is_running_) {
    mutex_.unlock();
    return Error{ErrorCode::kUnavailable, "stopped while another call runs the plugin", ""};
  }
  if (!must_run(now)) {
    Result<ExecCredential> known = *last_;
    mutex_.unlock();
    return known;
  }
  is_running_ = true;
  mutex_.unlock();
  Result<ExecCredential> fresh = run_(stop);
  const MutexLock lock(mutex_);
  is_running_ = false;
  changed_.notify_all();
  if (!fresh && stop.stop_requested()) return fresh;
  was_refused_ = false;
  ran_at_ = now;
  last_ = fresh;
  return fresh;
}

bool ExecSource::must_run(ExecCredential::Time now) const {
  constexpr std::chrono::minutes kMaxEarly{1};
  if (!last_) return true;
  if (!*last_) return now - ran_at_ >= kPluginPause;
  const ExecCredential& credential = **last_;
  if (was_refused_) return true;
  if (!credential.expires_at) return false;
  const auto early =
      std::min<ExecCredential::Time::duration>((*credential.expires_at - ran_at_) / 10, kMaxEarly);
  return now >= *credential.expires_at - early;
}

void ExecSource::refused(ExecCredential::Time now) {
  const MutexLock lock(mutex_);
  if (now - ran_at_ >= kPluginPause) was_refused_ = true;
}

Result<std::unique_ptr<Credentials>> Credentials::make(const ClientConfig& config, Endpoint base,
                                                       FileReader reader) {
  std::shared_ptr<const Endpoint> endpoint;
  ASSIGN_OR_RETURN(endpoint, endpoint_with(base, config.tls));
  return std::unique_ptr<Credentials>(
      new Credentials(config, std::move(endpoint), std::move(reader)));
}

Credentials::Credentials(const ClientConfig& config, std::shared_ptr<const Endpoint> endpoint,
                         FileReader reader)
    : reader_(std::move(reader)),
      tokens_(config.token, config.token_file, reader_),
      endpoint_(std::move(endpoint)),
      read_at_(Clock::now()) {
  if (!config.exec) return;
  plugin_ = std::make_unique<ExecSource>([plugin = *config.exec](const std::stop_token& stop) {
    return run_exec_plugin(plugin, kPluginTimeout, stop);
  });
}

Result<Identity> Credentials::current(Clock::time_point now, const std::stop_token& stop) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.token, tokens_.token(now));
  reread_certificates(now);
  {
    const MutexLock lock(mutex_);
    identity.endpoint = endpoint_;
  }
  RETURN_IF_ERROR(use_plugin(identity, stop));
  return identity;
}

Result<void> Credentials::use_plugin(Identity& identity, const std::stop_token& stop) {
  if (!plugin_) return {};
  const Result<ExecCredential> credential =
      plugin_->current(std::chrono::system_clock::now(), stop);
  if (!credential) return credential.error();
  if (identity.token.empty()) identity.token = credential->token;
  if (credential->client_cert_pem.empty()) return {};
  const MutexLock lock(mutex_);
  const bool is_made = plugin_endpoint_ != nullptr && plugin_base_ == identity.endpoint &&
                       plugin_endpoint_->tls.client_cert_pem == credential->client_cert_pem;
  if (!is_made) {
    TlsConfig tls = identity.endpoint->tls;
    tls.client_cert_pem = credential->client_cert_pem;
    tls.client_key_pem = credential->client_key_pem;
    ASSIGN_OR_RETURN(plugin_endpoint_, endpoint_with(*identity.endpoint, std::move(tls)));
    plugin_base_ = identity.endpoint;
  }
  identity.endpoint = plugin_endpoint_;
  return {};
}

void Credentials::invalidate() {
  tokens_.invalidate();
  if (plugin_) plugin_->refused(std::chrono::system_clock::now());
  const MutexLock lock(mutex_);
  read_at_.reset();
}

void Credentials::reread_certificates(Clock::time_point now) {
  std::shared_ptr<const Endpoint> before;
  {
    const MutexLock lock(mutex_);
    if (!comes_from_files(endpoint_->tls)) return;
    if (read_at_ && now - *read_at_ < kFilesReadPeriod) return;
    read_at_ = now;  // other threads go on with what we have
    before = endpoint_;
  }
  TlsConfig fresh = before->tls;
  fresh.ca_pem = reread(reader_, fresh.ca_file, fresh.ca_pem);
  fresh.client_cert_pem = reread(reader_, fresh.client_cert_file, fresh.client_cert_pem);
  fresh.client_key_pem = reread(reader_, fresh.client_key_file, fresh.client_key_pem);
  if (has_same_texts(fresh, before->tls)) return;
  // A certificate whose key is not written yet cannot be used: the next reading finds both.
  Result<std::shared_ptr<const Endpoint>> made = endpoint_with(*before, std::move(fresh));
  if (!made) return;
  const MutexLock lock(mutex_);
  endpoint_ = std::move(made).value();
}

}  // namespace lockstep::kube
