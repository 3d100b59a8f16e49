// Reads members of JSON objects that may lack them or hold something else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace lockstep::api {

// The value of `object[key]` if it has type T, else `fallback`.
template <typename T>
T value_or(const nlohmann::json& object, const char* key, T fallback) {
  if (!object.is_object()) return fallback;
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : fallback;
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->get<bool>() : fallback;
  } else {
    static_assert(std::is_same_v<T, int64_t>);
    return found->is_number_integer() ? found->get<int64_t>() : fallback;
  }
}

// A text member, or "".
inline std::string text(const nlohmann::json& object, const char* key) {
  return value_or<std::string>(object, key, "");
}

// The member `key`, or null.
inline nlohmann::json member(const nlohmann::json& object, const char* key) {
  return object.is_object() ? object.value(key, nlohmann::json()) : nlohmann::json();
}

// An integer member; nothing if it is absent or something else.
inline std::optional<int64_t> optional_integer(const nlohmann::json& object, const char* key) {
  const nlohmann::json value = member(object, key);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

}  // namespace lockstep::api
