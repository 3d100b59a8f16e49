// An owned, cache-line aligned, zeroed array of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace lockstep::runtime {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t num_elems)
      : num_elems_(num_elems), data_(static_cast<float*>(::operator new(num_bytes(), kAlignment))) {
    std::memset(data_.get(), 0, num_bytes());
  }

  float* data() const { return data_.get(); }
  int64_t num_elems() const { return num_elems_; }
  size_t num_bytes() const { return static_cast<size_t>(num_elems_) * sizeof(float); }
  std::span<float> elems() const { return {data(), static_cast<size_t>(num_elems_)}; }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(elems()); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };

  int64_t num_elems_ = 0;
  std::unique_ptr<float, Free> data_;
};

}  // namespace lockstep::runtime
