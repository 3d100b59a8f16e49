// safetensors files made by hand, sound or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {

struct TestTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using TestTensors = std::map<std::string, TestTensor>;

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

inline TestTensor floats(std::vector<int64_t> shape, std::span<const float> values) {
  return {"F32", std::move(shape), bytes_of(values)};
}

// The length field, `header` and `data`.
inline std::string safetensors_text(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

// The header is not padded, so that tensors lie at odd places.
inline std::string safetensors_text(const TestTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_text(header.dump(), data);
}

}  // namespace lockstep::runtime
