#include "runtime/parallel/decay_ranges.h"

namespace lockstep::runtime {

DecayRanges decay_ranges(std::span<const Unit> units, bool matrices_only) {
  DecayRanges ranges;
  for (const Unit& unit : units) {
    std::vector<DecayRange>& of_unit = ranges.emplace_back();
    for (const UnitTensor& tensor : unit.tensors) {
      of_unit.push_back({.begin_elem = tensor.begin_elem,
                         .end_elem = tensor.begin_elem + tensor.num_elems,
                         .decays = !matrices_only || tensor.shape.size() >= 2});
    }
  }
  return ranges;
}

}  // namespace lockstep::runtime
