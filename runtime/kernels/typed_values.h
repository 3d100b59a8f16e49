// Arrays in memory that carry the type of their elements.
#pragma once

#include <cstdint>

#include "runtime/common/dtype.h"

namespace lockstep::runtime {

using common::DType;

// One stored element; arithmetic is always in fp32. See narrow() and widen() in elementwise.h.
struct Bf16 {
  uint16_t bits = 0;
};
struct Fp16 {
  uint16_t bits = 0;
};

constexpr DType dtype_of(const float*) {
  return DType::kFp32;
}
constexpr DType dtype_of(const Bf16*) {
  return DType::kBf16;
}
constexpr DType dtype_of(const Fp16*) {
  return DType::kFp16;
}

// The element types above, and nothing else.
template <class T>
concept StoredElement = requires(const T* values) {
  dtype_of(values);
};

// A borrowed array that is only read. Made from a typed pointer without ado, as a span is.
struct ConstValues {
  DType dtype = DType::kFp32;
  const void* data = nullptr;

  constexpr ConstValues() = default;
  constexpr ConstValues(DType type, const void* values) : dtype(type), data(values) {}
  template <StoredElement T>
  constexpr ConstValues(const T* values)  // NOLINT(google-explicit-constructor)
      : dtype(dtype_of(values)), data(values) {}

  // The array from element `begin_elem` on.
  ConstValues from(int64_t begin_elem) const {
    return {dtype, static_cast<const char*>(data) + begin_elem * common::elem_bytes(dtype)};
  }
};

// A borrowed array that is written.
struct Values {
  DType dtype = DType::kFp32;
  void* data = nullptr;

  constexpr Values() = default;
  constexpr Values(DType type, void* values) : dtype(type), data(values) {}
  template <StoredElement T>
  constexpr Values(T* values)  // NOLINT(google-explicit-constructor)
      : dtype(dtype_of(values)), data(values) {}
  ConstValues from(int64_t begin_elem) const { return ConstValues(dtype, data).from(begin_elem); }
  constexpr operator ConstValues() const {  // NOLINT(google-explicit-constructor)
    return {dtype, data};
  }
};

}  // namespace lockstep::runtime
