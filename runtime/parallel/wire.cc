#include "runtime/parallel/wire.h"

#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

using common::DType;

std::byte* encode(DType wire, std::span<const float> values, std::byte* to) {
  const auto num_elems = static_cast<int64_t>(values.size());
  if (wire == DType::kFp32) {
    copy_bytes(to, values.data(), values.size_bytes());
  } else {
    narrow(num_elems, values.data(), {wire, to});
  }
  return to + num_elems * common::elem_bytes(wire);
}

const std::byte* decode(DType wire, const std::byte* from, std::span<float> values) {
  const auto num_elems = static_cast<int64_t>(values.size());
  if (wire == DType::kFp32) {
    copy_bytes(values.data(), from, values.size_bytes());
  } else {
    widen(num_elems, {wire, from}, values.data());
  }
  return from + num_elems * common::elem_bytes(wire);
}

}  // namespace lockstep::runtime
