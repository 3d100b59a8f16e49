// What a source does not say: the user's --set, and values to look at for the rest.
#pragma once

#include <string>
#include <vector>

#include "operator/convert/conversion.h"

namespace lockstep::convert {

// Lays `sets` ("path=value", as lockstep run takes them) over conversion.spec, then puts a value
// wherever the job still lacks one, each with a remark that it has to be looked at. Remarks on
// fields that were set go. What is wrong with `sets` is added to conversion.problems.
void complete(const std::vector<std::string>& sets, Conversion& conversion);

}  // namespace lockstep::convert
