#include "operator/kube/credentials.h"

#include <utility>

namespace lockstep::kube {
namespace {

using common::Result;

constexpr std::chrono::seconds kReadPeriod{60};

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
  endpoint->user_agent = base.user_agent;
  endpoint->connect_timeout = base.connect_timeout;
  ASSIGN_OR_RETURN(endpoint->material, load_tls(tls));
  endpoint->tls = std::move(tls);
  const auto probe = HttpConnection::make(endpoint);
  if (!probe) return probe.error();
  return std::shared_ptr<const Endpoint>(std::move(endpoint));
}

}  // namespace

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
      read_at_(Clock::now()) {}

Result<Identity> Credentials::current(Clock::time_point now) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.token, tokens_.token(now));
  reread_certificates(now);
  const MutexLock lock(mutex_);
  identity.endpoint = endpoint_;
  return identity;
}

void Credentials::invalidate() {
  tokens_.invalidate();
  const MutexLock lock(mutex_);
  read_at_.reset();
}

void Credentials::reread_certificates(Clock::time_point now) {
  std::shared_ptr<const Endpoint> before;
  {
    const MutexLock lock(mutex_);
    if (!comes_from_files(endpoint_->tls)) return;
    if (read_at_ && now - *read_at_ < kReadPeriod) return;
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
