#include "runtime/data/token_source.h"

#include <cassert>

namespace lockstep::runtime {

int64_t document_at(const TokenSource& source, int64_t position) {
  assert(position >= 0 && position < source.num_tokens());
  int64_t first = 0;  // begins at or before position
  int64_t after = source.num_documents();
  while (after - first > 1) {
    const int64_t middle = first + (after - first) / 2;
    (source.document_begin(middle) <= position ? first : after) = middle;
  }
  return first;
}

}  // namespace lockstep::runtime
