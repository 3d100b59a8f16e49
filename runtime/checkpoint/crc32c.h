// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and leveldb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep::runtime {

// The checksum of `bytes`; with `crc` of a prefix, the checksum of prefix and bytes together. Uses
// the processor's instruction where there is one.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same by table on any processor.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

// The checksum of `bytes` in eight hexadecimal digits.
std::string crc32c_hex(std::span<const std::byte> bytes);

}  // namespace lockstep::runtime
