#include "runtime/train/activation_store.h"

#include <utility>

namespace lockstep::runtime {

static_assert(kRecordBlockBytes % kSwapBlockBytes == 0);

ActivationStore::ActivationStore(std::unique_ptr<SwapFile> file, int64_t record_bytes)
    : file_(std::move(file)), record_bytes_(record_bytes) {}

void ActivationStore::start_write(int64_t record, std::span<const std::byte> from) {
  finish();
  thread_.start([this, record, from] { return file_->write(record * record_bytes_, from); });
}

void ActivationStore::start_read(int64_t record, std::span<std::byte> into) {
  finish();
  thread_.start([this, record, into] { return file_->read(record * record_bytes_, into); });
}

void ActivationStore::finish() {
  const common::Result<void> moved = thread_.await();
  if (!moved) throw OffloadError(moved.error());
}

}  // namespace lockstep::runtime
