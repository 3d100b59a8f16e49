// Types in which numbers are computed with and stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::common {

// fp32 and fp16 of IEEE 754; bf16 is the upper half of an fp32.
enum class DType : uint8_t { kFp32, kBf16, kFp16 };

constexpr int64_t elem_bytes(DType dtype) {
  return dtype == DType::kFp32 ? 4 : 2;
}

// As a configuration spells it: "fp32", "bf16", "fp16".
constexpr std::string_view to_string(DType dtype) {
  return dtype == DType::kFp32 ? "fp32" : dtype == DType::kBf16 ? "bf16" : "fp16";
}

}  // namespace lockstep::common
