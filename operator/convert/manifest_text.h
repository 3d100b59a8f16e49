// A conversion as the text of a manifest, for people to go on from.
#pragma once

#include <string>

#include "operator/convert/conversion.h"

namespace lockstep::convert {

// A TrainingJob in YAML: fields in the order of the reference, CHANGE behind what the user has to
// look at, and above it what was refused or is done otherwise.
//   source: what was read, for the first line: "ds.json".
// Pure. Comments hold no character that ends a comment.
std::string manifest_text(const Conversion& conversion, const std::string& source);

}  // namespace lockstep::convert
