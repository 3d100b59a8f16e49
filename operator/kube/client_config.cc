#include "operator/kube/client_config.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <openssl/evp.h>

namespace lockstep::kube {

using common::Error;
using common::ErrorCode;
using common::Result;

std::optional<std::string> read_env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.good() || in.eof()) return text;
  const int why = errno;
  const ErrorCode code = why == ENOENT || why == ENOTDIR ? ErrorCode::kNotFound
                         : why == EACCES                 ? ErrorCode::kPermissionDenied
                                                         : ErrorCode::kUnavailable;
  return Error{code, path + ": cannot be read: " + std::strerror(why == 0 ? EIO : why), ""};
}

std::string base64(const std::string& text) {
  std::string out((text.size() + 2) / 3 * 4 + 1, '\0');  // and a final zero byte
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::string trim(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace lockstep::kube
