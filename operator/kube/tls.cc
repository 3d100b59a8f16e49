#include "operator/kube/tls.h"

#include <array>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

using BioPtr = std::unique_ptr<BIO, OpensslDelete<BIO_free>>;

Error tls_error(const std::string& what) {
  std::array<char, 256> why{};
  ERR_error_string_n(ERR_get_error(), why.data(), why.size());
  ERR_clear_error();
  return {ErrorCode::kInvalidArgument, what + ": " + why.data(), ""};
}

BioPtr memory_of(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Result<std::vector<X509Ptr>> parse_certificates(const std::string& pem, const std::string& what) {
  const BioPtr bio = memory_of(pem);
  std::vector<X509Ptr> out;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(certificate);
  }
  if (out.empty()) return tls_error(what + " holds no PEM certificate");
  ERR_clear_error();  // the end of the text is reported as an error
  return out;
}

// No pass phrase: without this OpenSSL would ask on the terminal.
int no_pass_phrase(char* /*buffer*/, int /*size*/, int /*rwflag*/, void* /*user*/) {
  return -1;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

}  // namespace

Result<TlsMaterial> load_tls(const TlsConfig& config) {
  TlsMaterial out;
  if (!config.ca_pem.empty() && !config.insecure_skip_verify) {
    const Result<std::vector<X509Ptr>> authorities =
        parse_certificates(config.ca_pem, "certificate authority");
    if (!authorities) return authorities.error();
    out.trusted.reset(X509_STORE_new());
    for (const X509Ptr& authority : *authorities) {
      if (X509_STORE_add_cert(out.trusted.get(), authority.get()) != 1) {
        return tls_error("certificate authority");
      }
    }
  }
  if (config.client_cert_pem.empty()) return out;
  ASSIGN_OR_RETURN(out.chain, parse_certificates(config.client_cert_pem, "client certificate"));
  const BioPtr bio = memory_of(config.client_key_pem);
  out.key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (!out.key) return tls_error("client key holds no unencrypted PEM private key");
  if (X509_check_private_key(out.chain.front().get(), out.key.get()) != 1) {
    return tls_error("client key does not belong to the client certificate");
  }
  return out;
}

Result<void> apply_tls(const TlsMaterial& material, const TlsConfig& config,
                       const std::string& host, SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // An idle connection gives its two 16 KiB buffers back.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  if (material.trusted) SSL_CTX_set1_cert_store(context, material.trusted.get());
  if (!config.insecure_skip_verify) {
    X509_VERIFY_PARAM* param = SSL_CTX_get0_param(context);
    const int ok = is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str())
                                    : X509_VERIFY_PARAM_set1_host(param, host.c_str(), host.size());
    if (ok != 1) return tls_error("server name '" + host + "'");
  }
  if (material.chain.empty()) return {};
  bool ok = SSL_CTX_use_certificate(context, material.chain.front().get()) == 1 &&
            SSL_CTX_use_PrivateKey(context, material.key.get()) == 1;
  for (std::size_t i = 1; ok && i < material.chain.size(); ++i) {
    ok = SSL_CTX_add1_chain_cert(context, material.chain[i].get()) == 1;
  }
  if (!ok) return tls_error("client certificate");
  return {};
}

}  // namespace lockstep::kube
