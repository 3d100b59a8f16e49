// The seam through which what blocks save leaves memory between forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::runtime {

// One transfer is under way at a time: a start waits for the one before. All three throw what the
// storage throws.
class SavedStore {
 public:
  virtual ~SavedStore() = default;
  // `from` and `into` are aligned to kRecordBlockBytes, as is their size, and must be left alone
  // until finish() or the next start.
  virtual void start_write(int64_t record, std::span<const std::byte> from) = 0;
  virtual void start_read(int64_t record, std::span<std::byte> into) = 0;
  // Blocks until nothing is under way.
  virtual void finish() = 0;
};

inline constexpr int64_t kRecordBlockBytes = 4096;

}  // namespace lockstep::runtime
