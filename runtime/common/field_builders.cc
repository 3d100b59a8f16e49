#include "runtime/common/field_builders.h"

namespace lockstep::common {

using nlohmann::json;

Field integer(std::string name, double minimum, double maximum, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kInteger,
          .doc = std::move(doc),
          .minimum = minimum,
          .maximum = maximum};
}

Field required(Field field) {
  field.required = true;
  return field;
}

Field defaulted(Field field, json value) {
  field.default_value = std::move(value);
  return field;
}

Field boolean(std::string name, bool value, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kBoolean,
          .doc = std::move(doc),
          .default_value = value};
}

Field number(std::string name, double minimum, double maximum, double value, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kNumber,
          .doc = std::move(doc),
          .default_value = value,
          .minimum = minimum,
          .maximum = maximum};
}

Field positive(Field field) {
  field.exclusive_minimum = true;
  return field;
}

Field choice(std::string name, std::vector<json> choices, std::vector<std::string> planned,
             std::string doc) {
  Field field{.name = std::move(name), .doc = std::move(doc)};
  field.default_value = choices.front();
  field.choices = std::move(choices);
  field.planned = std::move(planned);
  return field;
}

Field object(std::string name, std::string doc, Fields children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .default_value = json::object(),
          .children = std::move(children)};
}

Field required_object(std::string name, std::string doc, Fields children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .required = true,
          .children = std::move(children)};
}

}  // namespace lockstep::common
