// Kubernetes quantities as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::common {

// Bytes of a memory quantity: "64Gi", "1500M", "1e9", "128974848", "1.5Gi"; rounded up. Nothing if
// the text is no quantity, is negative or does not fit in int64.
// Source: resource.Quantity of k8s.io/apimachinery.
std::optional<int64_t> quantity_bytes(const std::string& text);

// `text` times `factor` (at least 1), exactly and in the same unit: "1.5Gi" times 4 is "6Gi".
// Nothing if the text is no quantity, or is negative.
std::optional<std::string> multiply_quantity(const std::string& text, int64_t factor);

// The sum of two quantities: in thousandths if it is not whole, rounded up. Nothing if one is no
// quantity, is negative, or the sum does not fit in an int64 of thousandths.
std::optional<std::string> add_quantities(const std::string& a, const std::string& b);

}  // namespace lockstep::common
