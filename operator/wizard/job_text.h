// The manifest that answers make. Pure.
#pragma once

#include <string>

#include "operator/wizard/questions.h"

namespace lockstep::wizard {

// A TrainingJob in YAML, with comments for who goes on from it. Lines that are nothing but a field
// behind "# " may be brought in as they stand. What is not answered yet has its fallback, else a
// text that stands for it; answers that are wrong stand where they are to be complained of.
std::string job_text(const Answers& answers);

}  // namespace lockstep::wizard
