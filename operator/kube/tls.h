// Certificates from PEM text into OpenSSL, the same objects for all connections of a client.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openssl/ssl.h>

#include "operator/kube/client_config.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

template <auto kFree>
struct OpensslDelete {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using X509Ptr = std::unique_ptr<X509, OpensslDelete<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDelete<EVP_PKEY_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpensslDelete<X509_STORE_free>>;

struct TlsMaterial {
  StorePtr trusted;            // null: the system's authorities, or no verification
  std::vector<X509Ptr> chain;  // client certificate first; empty: none
  KeyPtr key;
};

// kInvalidArgument if a certificate or key cannot be used, naming which.
common::Result<TlsMaterial> load_tls(const TlsConfig& config);

// Makes `context` trust and present `material`, and accept only a peer that is called `host`
// (a DNS name or an address). TLS 1.2 or newer.
common::Result<void> apply_tls(const TlsMaterial& material, const TlsConfig& config,
                               const std::string& host, SSL_CTX* context);

}  // namespace lockstep::kube
