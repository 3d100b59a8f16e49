// A swap file that notices when storage gives back something else than it was given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/offload/swap_file.h"

namespace lockstep::runtime {

// `file`, with a CRC-32C of each block of kSwapBlockBytes in memory: 4 bytes for 4 KiB. It is
// computed when the block is written and compared when it is read, by the thread that transfers.
//   file: holds zeros, as one has whose space was only reserved.
//   path: of the file, for errors; num_bytes: its size, a multiple of kSwapBlockBytes.
// Reads return kDataLoss with path and offset of the first damaged block; what they were to fill is
// then unspecified. Offsets and sizes of transfers must be multiples of kSwapBlockBytes.
std::unique_ptr<SwapFile> check_blocks(std::unique_ptr<SwapFile> file, std::string path,
                                       int64_t num_bytes);

}  // namespace lockstep::runtime
