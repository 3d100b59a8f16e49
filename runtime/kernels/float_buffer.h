// An owned, cache-line aligned, zeroed array of floats in the device's memory, and how much all of
// them take.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/kernels/device.h"

namespace lockstep::runtime {

// Bytes of the FloatBuffers of this process, now and at most. Written by whoever allocates, read by
// whoever reports. A process-wide count is what it is: the only state of its kind.
struct BufferBytes {
  std::atomic<int64_t> live = 0;
  std::atomic<int64_t> peak = 0;

  void add(int64_t bytes) {
    const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t most = peak.load(std::memory_order_relaxed);
    while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
};
inline BufferBytes float_buffer_bytes;

struct FreeBuffer {
  size_t num_bytes = 0;
  void operator()(float* data) const {
    device().release(data);
    float_buffer_bytes.add(-static_cast<int64_t>(num_bytes));
  }
};

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t num_elems)
      : num_elems_(num_elems),
        data_(static_cast<float*>(device().allocate(num_bytes())), FreeBuffer{num_bytes()}) {
    float_buffer_bytes.add(static_cast<int64_t>(num_bytes()));
    clear_floats(num_elems, data_.get());
  }

  float* data() const { return data_.get(); }
  int64_t num_elems() const { return num_elems_; }
  size_t num_bytes() const { return static_cast<size_t>(num_elems_) * sizeof(float); }
  std::span<float> elems() const { return {data(), static_cast<size_t>(num_elems_)}; }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(elems()); }

 private:
  int64_t num_elems_ = 0;
  std::unique_ptr<float, FreeBuffer> data_;
};

}  // namespace lockstep::runtime
