#include "runtime/offload/checked_swap_file.h"

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

class CheckedSwapFile final : public SwapFile {
 public:
  CheckedSwapFile(std::unique_ptr<SwapFile> file, std::string path, int64_t num_bytes)
      : file_(std::move(file)),
        path_(std::move(path)),
        checksums_(static_cast<std::size_t>(num_bytes / kSwapBlockBytes),
                   crc32c(std::vector<std::byte>(kSwapBlockBytes))) {}

  Result<void> read(int64_t offset_bytes, std::span<std::byte> into) override {
    RETURN_IF_ERROR(file_->read(offset_bytes, into));
    int64_t block = first_block(offset_bytes, into.size());
    for (; !into.empty(); into = into.subspan(kSwapBlockBytes), ++block) {
      if (crc32c(into.first(kSwapBlockBytes)) != checksums_[static_cast<std::size_t>(block)]) {
        return Error{ErrorCode::kDataLoss, path_ + " is damaged at byte " +
                                               std::to_string(block * kSwapBlockBytes) +
                                               ": these " + std::to_string(kSwapBlockBytes) +
                                               " bytes are not what was written there"};
      }
    }
    return {};
  }

  Result<void> write(int64_t offset_bytes, std::span<const std::byte> from) override {
    int64_t block = first_block(offset_bytes, from.size());
    for (std::span<const std::byte> rest = from; !rest.empty();
         rest = rest.subspan(kSwapBlockBytes), ++block) {
      checksums_[static_cast<std::size_t>(block)] = crc32c(rest.first(kSwapBlockBytes));
    }
    return file_->write(offset_bytes, from);
  }

 private:
  static int64_t first_block(int64_t offset_bytes, std::size_t size) {
    assert(offset_bytes % kSwapBlockBytes == 0 && size % kSwapBlockBytes == 0);
    static_cast<void>(size);
    return offset_bytes / kSwapBlockBytes;
  }

  std::unique_ptr<SwapFile> file_;
  std::string path_;
  std::vector<uint32_t> checksums_;  // by block
};

}  // namespace

std::unique_ptr<SwapFile> check_blocks(std::unique_ptr<SwapFile> file, std::string path,
                                       int64_t num_bytes) {
  return std::make_unique<CheckedSwapFile>(std::move(file), std::move(path), num_bytes);
}

}  // namespace lockstep::runtime
