// TensorBoard's event files: scalars by step, in OUTPUT/tensorboard/.
//
// A file is a sequence of TFRecords: length (uint64), masked CRC-32C of the length, bytes, masked
// CRC-32C of the bytes; all little-endian. The bytes are protocol buffers `tensorflow.Event`, of
// which we write wall_time, step, file_version, summary and session_log. Sources:
// tensorboard/compat/proto/{event,summary}.proto; tensorflow/core/lib/io/record_writer.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr char kTensorBoardFolder[] = "tensorboard";

// A value at a step, below a name such as "train/loss".
struct Scalar {
  std::string_view tag;
  double value = 0;  // kept as fp32, as TensorBoard does
};

// The records, apart from where they go. `wall_seconds`: since 1970.
std::string frame_record(std::string_view bytes);
std::string encode_file_version(double wall_seconds);
// A new session begins: TensorBoard drops what earlier files have of `first_step` and later.
std::string encode_session_start(double wall_seconds, int64_t first_step);
std::string encode_scalars(double wall_seconds, int64_t step, std::span<const Scalar> scalars);

struct EventFileOptions {
  std::string output;  // LOCKSTEP_OUTPUT
  int64_t attempt = 0;
  int64_t first_step = 1;  // that this attempt will tell of
};

// One attempt's file. Rank 0 writes it.
class EventFile {
 public:
  // Creates OUTPUT/tensorboard/events.out.tfevents.SECONDS.lockstep.ATTEMPT (goes on with it, if
  // there was one in this second), which sorts behind those of earlier attempts, and begins a
  // session. Errors carry the path and the reason.
  static common::Result<EventFile> create(const EventFileOptions& options);
  ~EventFile();
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&& other) noexcept;

  // One record, written through to the system but not synced: metrics.jsonl is the record that
  // survives a crash, these are its picture.
  common::Result<void> append(int64_t step, std::span<const Scalar> scalars);

 private:
  EventFile(std::string path, int descriptor);
  common::Result<void> write(std::string_view event);

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace lockstep::runtime
