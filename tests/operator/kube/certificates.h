// Certificates made on the spot.
#pragma once

#include <string>

namespace lockstep::kube {

struct Certificate {
  std::string cert_pem;
  std::string key_pem;
};

// Self-signed for `name`, of a fresh P-256 key. Throws if OpenSSL fails.
Certificate make_certificate(const std::string& name);

}  // namespace lockstep::kube
