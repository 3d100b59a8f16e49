#include "runtime/train/event_file.h"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Result;
using common::system_error;

// Wire types of protocol buffers, in the low bits of a field's key.
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_little_endian(std::string& out, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7f) | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// Event.wall_time and Event.step. A step of 0 is the default, which is not written.
std::string begin_event(double wall_seconds, int64_t step) {
  std::string event;
  put_key(event, 1, Wire::kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_seconds), 8);
  if (step != 0) {
    put_key(event, 2, Wire::kVarint);
    put_varint(event, static_cast<uint64_t>(step));
  }
  return event;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string padded(int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits > text.size() ? digits - text.size() : 0, '0').append(text);
}

}  // namespace

std::string frame_record(std::string_view bytes) {
  std::string length;
  put_little_endian(length, bytes.size(), 8);
  std::string record = length;
  put_little_endian(record, masked_crc32c(length), 4);
  record.append(bytes);
  put_little_endian(record, masked_crc32c(bytes), 4);
  return record;
}

std::string encode_file_version(double wall_seconds) {
  std::string event = begin_event(wall_seconds, 0);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string encode_session_start(double wall_seconds, int64_t first_step) {
  std::string session_log;
  put_key(session_log, 1, Wire::kVarint);
  put_varint(session_log, 1);  // SessionLog.START
  std::string event = begin_event(wall_seconds, first_step);
  put_bytes(event, 7, session_log);
  return event;
}

std::string encode_scalars(double wall_seconds, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::kFixed32);  // simple_value
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), 4);
    put_bytes(summary, 1, value);
  }
  std::string event = begin_event(wall_seconds, step);
  put_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

EventFile::~EventFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

EventFile::EventFile(EventFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

EventFile& EventFile::operator=(EventFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<EventFile> EventFile::create(const EventFileOptions& options) {
  const std::string folder = options.output + "/" + kTensorBoardFolder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return system_error("create", folder, error.value());
  const double wall_seconds = now_seconds();
  const std::string path = folder + "/events.out.tfevents." +
                           padded(static_cast<int64_t>(wall_seconds), 10) + ".lockstep." +
                           padded(options.attempt, 6);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_error("create", path, errno);
  EventFile file(path, descriptor);
  RETURN_IF_ERROR(file.write(encode_file_version(wall_seconds)));
  RETURN_IF_ERROR(file.write(encode_session_start(wall_seconds, options.first_step)));
  return file;
}

Result<void> EventFile::append(int64_t step, std::span<const Scalar> scalars) {
  return write(encode_scalars(now_seconds(), step, scalars));
}

Result<void> EventFile::write(std::string_view event) {
  const std::string record = frame_record(event);
  for (std::string_view rest = record; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace lockstep::runtime
