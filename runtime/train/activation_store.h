// Saved activations in a swap file.
#pragma once

#include <memory>

#include "runtime/checkpoint/disk_thread.h"
#include "runtime/model/saved_store.h"
#include "runtime/offload/swap_file.h"

namespace lockstep::runtime {

// Records follow one another in the file. Throws OffloadError when a transfer fails.
class ActivationStore final : public SavedStore {
 public:
  ActivationStore(std::unique_ptr<SwapFile> file, int64_t record_bytes);

  void start_write(int64_t record, std::span<const std::byte> from) override;
  void start_read(int64_t record, std::span<std::byte> into) override;
  void finish() override;

 private:
  std::unique_ptr<SwapFile> file_;
  int64_t record_bytes_;
  DiskThread thread_{"lockstep-saved"};  // last: it ends before what its jobs use
};

}  // namespace lockstep::runtime
