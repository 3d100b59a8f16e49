// An owned, cache-line aligned, zeroed array of floats, and how much memory all of them take.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

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

inline constexpr std::align_val_t kBufferAlignment{64};

struct FreeBuffer {
  size_t num_bytes = 0;
  void operator()(float* data) const {
    ::operator delete(data, kBufferAlignment);
    float_buffer_bytes.add(-static_cast<int64_t>(num_bytes));
  }
};

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t num_elems)
      : num_elems_(num_elems),
        data_(static_cast<float*>(::operator new(num_bytes(), kBufferAlignment)),
              FreeBuffer{num_bytes()}) {
    float_buffer_bytes.add(static_cast<int64_t>(num_bytes()));
    std::memset(data_.get(), 0, num_bytes());
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
