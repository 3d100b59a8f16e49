#include "runtime/hub/file_digest.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string in_hex(const unsigned char* bytes, unsigned int size) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text.push_back(kDigits[bytes[i] >> 4U]);
    text.push_back(kDigits[bytes[i] & 15U]);
  }
  return text;
}

}  // namespace

Result<std::string> digest_of(const std::string& path, Digest digest, const std::stop_token& stop) {
  const OpenFile file(path);
  struct stat status = {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) {
    return common::system_error("open", path, errno);
  }
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum(EVP_MD_CTX_new(),
                                                                    &EVP_MD_CTX_free);
  const EVP_MD* const kind = digest == Digest::kSha256 ? EVP_sha256() : EVP_sha1();
  bool ok = sum != nullptr && EVP_DigestInit_ex(sum.get(), kind, nullptr) == 1;
  if (digest == Digest::kGitSha1) {
    const std::string head = std::string("blob ").append(std::to_string(status.st_size));
    ok = ok && EVP_DigestUpdate(sum.get(), head.c_str(), head.size() + 1) == 1;
  }
  std::vector<char> piece(kPieceBytes);
  while (ok) {
    if (stop.stop_requested()) return Error{ErrorCode::kUnavailable, "told to stop", ""};
    const ssize_t size = ::read(file.fd(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return common::system_error("read", path, errno);
    if (size == 0) break;
    ok = EVP_DigestUpdate(sum.get(), piece.data(), static_cast<std::size_t>(size)) == 1;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  if (!ok || EVP_DigestFinal_ex(sum.get(), bytes.data(), &size) != 1) {
    return Error{ErrorCode::kInternal, "cannot compute a checksum of " + path, ""};
  }
  return in_hex(bytes.data(), size);
}

}  // namespace lockstep::runtime
