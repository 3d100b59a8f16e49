#include "operator/convert/conversion.h"

#include <algorithm>

namespace lockstep::convert {

bool has_refusals(const Conversion& conversion) {
  return std::any_of(conversion.notes.begin(), conversion.notes.end(),
                     [](const Note& note) { return note.fate == Fate::kRefused; });
}

}  // namespace lockstep::convert
