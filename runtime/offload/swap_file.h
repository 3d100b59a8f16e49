// A file on fast local storage that holds what a rank has no memory for. It is scratch: nothing in
// it outlives the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::runtime {

// Offsets, addresses and sizes of transfers are multiples of it: what direct I/O asks of them.
inline constexpr int64_t kSwapBlockBytes = 4096;

// Moving offloaded state failed in mid-run. Ends the rank; checkpoints are as they were.
class OffloadError : public std::runtime_error {
 public:
  explicit OffloadError(const common::Error& error)
      : std::runtime_error("train.offload: " + error.message) {}
};

// The seam for tests, which fail any transfer.
class SwapFile {
 public:
  virtual ~SwapFile() = default;
  // Both block until all bytes are moved, or fail with path and reason. Of one thread at a time.
  virtual common::Result<void> read(int64_t offset_bytes, std::span<std::byte> into) = 0;
  virtual common::Result<void> write(int64_t offset_bytes, std::span<const std::byte> from) = 0;
};

struct CreatedSwapFile {
  std::unique_ptr<SwapFile> file;
  bool is_direct = false;  // transfers pass by the page cache
};

// Note [A file without a name]
// The swap file loses its name as soon as it is open, before it holds a byte. So the kernel frees
// its space when the process ends, however it ends, and no later attempt has to look for leftovers;
// ranks and jobs may share a folder. `ls` does not show it, `df` and `lsof +L1` do.

// Note [Direct I/O]
// The page cache would count against the memory that offload is to save (a pod's working set), and
// evict what the node's other pods have there. So transfers are direct where the file system can,
// as DeepSpeed's are; else through the page cache, which is_direct tells.

// Creates a swap file of `num_bytes` (a multiple of kSwapBlockBytes) in `folder`, which must exist,
// and reserves its space, so that a disk that others fill later does not end the run. Blocks are
// checked when they are read: see check_blocks().
// Errors: kNotFound if there is no such folder; kUnavailable if it has not that much space, naming
// both sizes; else what the system says.
common::Result<CreatedSwapFile> create_swap_file(const std::string& folder, int64_t num_bytes);

// A swap file over an open descriptor, which it closes.
std::unique_ptr<SwapFile> make_swap_file(int descriptor, std::string path);

}  // namespace lockstep::runtime
