#include "tests/support/event_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace lockstep::support {
namespace {

// CRC-32C bit by bit (polynomial 0x1EDC6F41, reflected), masked as TFRecords mask it.
uint32_t masked_checksum(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Takes values off the front of some bytes.
class Bytes {
 public:
  explicit Bytes(std::string_view rest) : rest_(rest) {}

  bool is_empty() const { return rest_.empty(); }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw std::runtime_error("torn event");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T take_as() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint64_t take_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = take_as<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw std::runtime_error("endless varint");
  }

 private:
  std::string_view rest_;
};

[[noreturn]] void refuse(uint64_t key, const char* message) {
  throw std::runtime_error(std::string(message) + ": unknown field or wire type " +
                           std::to_string(key >> 3) + "/" + std::to_string(key & 7));
}

constexpr uint64_t key_of(uint64_t field, uint64_t wire_type) {
  return field << 3 | wire_type;
}

void read_value(Bytes value, Event& event) {
  std::string tag;
  float number = 0;
  while (!value.is_empty()) {
    const uint64_t key = value.take_varint();
    if (key == key_of(1, 2)) {
      tag = value.take(value.take_varint());
    } else if (key == key_of(2, 5)) {
      number = value.take_as<float>();
    } else {
      refuse(key, "Summary.Value");
    }
  }
  event.scalars[tag] = number;
}

Event read_event(Bytes bytes) {
  Event event;
  while (!bytes.is_empty()) {
    const uint64_t key = bytes.take_varint();
    if (key == key_of(1, 1)) {
      event.wall_seconds = bytes.take_as<double>();
    } else if (key == key_of(2, 0)) {
      event.step = static_cast<int64_t>(bytes.take_varint());
    } else if (key == key_of(3, 2)) {
      event.file_version = bytes.take(bytes.take_varint());
    } else if (key == key_of(5, 2)) {
      Bytes summary(bytes.take(bytes.take_varint()));
      while (!summary.is_empty()) {
        const uint64_t value_key = summary.take_varint();
        if (value_key != key_of(1, 2)) refuse(value_key, "Summary");
        read_value(Bytes(summary.take(summary.take_varint())), event);
      }
    } else if (key == key_of(7, 2)) {
      Bytes session(bytes.take(bytes.take_varint()));
      if (session.take_varint() != key_of(1, 0)) throw std::runtime_error("SessionLog.status");
      event.is_session_start = session.take_varint() == 1;
    } else {
      refuse(key, "Event");
    }
  }
  return event;
}

void read_file(const std::filesystem::path& path, std::vector<Event>& events) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Bytes records(text);
  while (!records.is_empty()) {
    const std::string_view length = records.take(8);
    if (records.take_as<uint32_t>() != masked_checksum(length)) {
      throw std::runtime_error("checksum of a length");
    }
    const std::string_view bytes = records.take(Bytes(length).take_as<uint64_t>());
    if (records.take_as<uint32_t>() != masked_checksum(bytes)) {
      throw std::runtime_error("checksum of a record");
    }
    events.push_back(read_event(Bytes(bytes)));
  }
}

}  // namespace

std::vector<Event> read_events(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Event> events;
  for (const std::filesystem::path& path : paths) read_file(path, events);
  return events;
}

std::map<int64_t, float> shown_scalars(const std::vector<Event>& events, const std::string& tag) {
  std::map<int64_t, float> shown;
  for (const Event& event : events) {
    if (event.is_session_start) shown.erase(shown.lower_bound(event.step), shown.end());
    const auto found = event.scalars.find(tag);
    if (found == event.scalars.end()) continue;
    if (!shown.emplace(event.step, found->second).second) {
      throw std::runtime_error("step " + std::to_string(event.step) + " comes twice");
    }
  }
  return shown;
}

}  // namespace lockstep::support
