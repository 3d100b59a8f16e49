#include "runtime/parallel/unit_gatherer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::runtime {

UnitGatherer::UnitGatherer(Collective& collective, std::vector<std::span<const std::byte>> slices)
    : collective_(collective), slices_(std::move(slices)) {
  const auto world_size = static_cast<size_t>(collective.world_size());
  for (const std::span<const std::byte> slice : slices_) {
    buffer_bytes_ = std::max(buffer_bytes_, slice.size() * world_size);
  }
  // One for the unit at work, one for the next.
  add_buffer();
  add_buffer();
}

const std::byte* UnitGatherer::acquire(int64_t unit, int64_t next) {
  Buffer* buffer = find(unit);
  if (buffer == nullptr) {
    buffer = find_free();
    // Callers may hold more units than training does, for example to generate text.
    if (buffer == nullptr) buffer = &add_buffer();
    start_gather(*buffer, unit);
  }
  buffer->in_use = true;
  buffer->prefetched = false;
  if (buffer->gather != nullptr) {
    buffer->gather->wait();
    buffer->gather.reset();
  }
  const std::byte* const weights = buffer->weights.bytes().data();
  if (next >= 0 && find(next) == nullptr) {
    if (Buffer* const ahead = find_free(); ahead != nullptr) {
      start_gather(*ahead, next);
      ahead->prefetched = true;
    }
  }
  return weights;
}

void UnitGatherer::release(int64_t unit) {
  Buffer* const buffer = find(unit);
  if (buffer == nullptr || !buffer->in_use) {
    throw std::logic_error("unit " + std::to_string(unit) + " is not in use");
  }
  buffer->in_use = false;  // its weights stay until the buffer is needed: the turn at the last unit
}

void UnitGatherer::refresh() {
  for (Buffer& buffer : buffers_) {
    if (buffer.in_use) {
      throw std::logic_error("unit " + std::to_string(buffer.unit) + " is still in use");
    }
    if (buffer.gather != nullptr) buffer.gather->wait();
    buffer.gather.reset();
    buffer.unit = -1;
    buffer.prefetched = false;
  }
}

UnitGatherer::Buffer* UnitGatherer::find(int64_t unit) {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [unit](const Buffer& buffer) { return buffer.unit == unit; });
  return found == buffers_.end() ? nullptr : &*found;
}

UnitGatherer::Buffer* UnitGatherer::find_free() {
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers_) {
    if (buffer.in_use || buffer.prefetched) continue;
    if (best == nullptr || (best->unit >= 0 && buffer.unit < 0)) best = &buffer;
  }
  return best;
}

void UnitGatherer::start_gather(Buffer& buffer, int64_t unit) {
  const std::span<const std::byte> slice = slices_[static_cast<size_t>(unit)];
  const size_t full_bytes = slice.size() * static_cast<size_t>(collective_.world_size());
  buffer.unit = unit;
  buffer.gather = collective_.all_gather(slice, buffer.weights.bytes().first(full_bytes),
                                         "weights of unit " + std::to_string(unit));
}

UnitGatherer::Buffer& UnitGatherer::add_buffer() {
  Buffer& buffer = buffers_.emplace_back();
  buffer.weights = FloatBuffer(static_cast<int64_t>(buffer_bytes_ / sizeof(float)));
  return buffer;
}

}  // namespace lockstep::runtime
