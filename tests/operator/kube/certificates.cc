#include "tests/operator/kube/certificates.h"

#include <memory>
#include <stdexcept>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "operator/kube/tls.h"

namespace lockstep::kube {
namespace {

using BioPtr = std::unique_ptr<BIO, OpensslDelete<BIO_free>>;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

Certificate make_certificate(const std::string& name) {
  constexpr long kHour = 3600;
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr cert(X509_new());
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -kHour);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), kHour);
  X509_NAME* subject = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), subject);
  X509_set_pubkey(cert.get(), key.get());
  const BioPtr cert_bio(BIO_new(BIO_s_mem()));
  const BioPtr key_bio(BIO_new(BIO_s_mem()));
  const bool ok = X509_sign(cert.get(), key.get(), EVP_sha256()) > 0 &&
                  PEM_write_bio_X509(cert_bio.get(), cert.get()) == 1 &&
                  PEM_write_bio_PrivateKey(key_bio.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                           nullptr) == 1;
  if (!ok) throw std::runtime_error("no certificate");
  return {text_of(cert_bio.get()), text_of(key_bio.get())};
}

}  // namespace lockstep::kube
