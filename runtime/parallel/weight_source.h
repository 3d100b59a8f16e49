// Where a strategy's full weights come from: they lie there (ResidentWeights) or are gathered while
// they are needed (UnitGatherer).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::runtime {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Full weights of `unit`, valid until release(unit). `next` (-1: none) is needed after it and may
  // be fetched ahead. Blocks until `unit` is there. Throws as Pending::wait().
  virtual const std::byte* acquire(int64_t unit, int64_t next) = 0;
  virtual void release(int64_t unit) = 0;

  // This rank's slices have changed: what the other ranks had of them is void. No unit may be in
  // use. Every rank must call it; issues operations, does not wait for them.
  virtual void refresh() = 0;
};

}  // namespace lockstep::runtime
