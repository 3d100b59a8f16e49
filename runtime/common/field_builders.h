// Short ways to write rows of the tables of fields.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/common/schema.h"

namespace lockstep::common {

using Fields = std::vector<Field>;

inline constexpr double kMaxCount = 1e9;  // steps, warm-up: no run is longer
inline constexpr double kMaxSeconds = 86400;

Field integer(std::string name, double minimum, double maximum, std::string doc);
Field required(Field field);
Field defaulted(Field field, nlohmann::json value);
Field boolean(std::string name, bool value, std::string doc);
// A number in [minimum, maximum].
Field number(std::string name, double minimum, double maximum, double value, std::string doc);
Field positive(Field field);
// One of `choices`, the first by default.
Field choice(std::string name, std::vector<nlohmann::json> choices,
             std::vector<std::string> planned, std::string doc);
Field object(std::string name, std::string doc, Fields children);
Field required_object(std::string name, std::string doc, Fields children);

}  // namespace lockstep::common
