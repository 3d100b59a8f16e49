#include "runtime/parallel/unit_gatherer.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::runtime {

UnitGatherer::UnitGatherer(Collective& collective, std::vector<std::span<const std::byte>> slices,
                           int64_t num_ahead)
    : collective_(collective), slices_(std::move(slices)), num_ahead_(num_ahead) {
  const auto world_size = static_cast<size_t>(collective.world_size());
  for (const std::span<const std::byte> slice : slices_) {
    buffer_bytes_ = std::max(buffer_bytes_, slice.size() * world_size);
  }
  for (int64_t i = 0; i <= num_ahead_; ++i) add_buffer();
}

const std::byte* UnitGatherer::acquire(int64_t unit, int64_t next) {
  Buffer* buffer = find(unit);
  if (buffer == nullptr) {
    buffer = find_free(unit);
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
  if (next >= 0) gather_ahead(unit, next);
  return weights;
}

void UnitGatherer::gather_ahead(int64_t unit, int64_t next) {
  const int64_t stride = next < unit ? -1 : 1;
  const auto num_units = static_cast<int64_t>(slices_.size());
  for (int64_t i = 0; i < num_ahead_; ++i) {
    const int64_t wanted = next + i * stride;
    if (wanted < 0 || wanted >= num_units || slices_[static_cast<size_t>(wanted)].empty()) return;
    if (Buffer* const there = find(wanted)) {
      there->prefetched = !there->in_use;
      continue;
    }
    Buffer* const ahead = find_free(unit);
    if (ahead == nullptr) return;
    start_gather(*ahead, wanted);
    ahead->prefetched = true;
  }
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

UnitGatherer::Buffer* UnitGatherer::find_free(int64_t unit) {
  Buffer* best = nullptr;
  const auto distance = [unit](const Buffer& buffer) {
    return buffer.unit < 0 ? std::numeric_limits<int64_t>::max() : std::abs(buffer.unit - unit);
  };
  for (Buffer& buffer : buffers_) {
    if (buffer.in_use || buffer.prefetched) continue;
    if (best == nullptr || distance(buffer) > distance(*best)) best = &buffer;
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
