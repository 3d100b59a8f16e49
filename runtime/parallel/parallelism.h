// The one seam between training and its data-parallel strategies (design 7.1 - 7.3). A strategy
// owns parameters, gradients and optimizer state of this rank, and knows which micro-batches are
// its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/kernels/typed_values.h"
#include "runtime/optim/param_shard.h"

namespace lockstep::runtime {

// What a visit of training state does with it. The less, the less is moved where state is
// offloaded.
enum class StateAccess {
  kFill,         // overwrites all of it; what it holds before is unspecified
  kUpdate,       // the optimizer: reads and changes all of it; frozen units are left out
  kRead,         // changes nothing
  kReadWeights,  // the same, and the moments are not looked at; they may be empty
};
// A whole shard, or a part of one.
using UseShard = std::function<void(const ParamShard&)>;
// Writes elements from begin_elem of a unit on.
using FillElems = std::function<void(int64_t unit, int64_t begin_elem, std::span<float> out)>;

class Parallelism {
 public:
  virtual ~Parallelism() = default;

  // Indices into the global batch's micro-batches, in the order in which this rank computes them.
  virtual const std::vector<int64_t>& micro_batches() const = 0;

  // Full parameters of a unit in the type of computation: the fp32 masters, or copies of them that
  // are rounded once per weights_updated(). Valid until reshard(unit). `next` is the unit needed
  // after it (-1: none), whose gathering starts now. Blocks until `unit` is there.
  virtual ConstValues unshard(int64_t unit, int64_t next) = 0;
  virtual void reshard(int64_t unit) = 0;

  // Where the current micro-batch's gradient of `unit` is to be written: [unit elements]. Null if
  // the unit is frozen: it has none, and gradient_ready() is not called.
  virtual float* gradient_buffer(int64_t unit) = 0;
  // The buffer is written; the strategy may reduce it while backward goes on.
  virtual void gradient_ready(int64_t unit) = 0;

  // Ends the step's last backward: waits for all reductions. After it the gradients of shards() and
  // owned() are final: the sum over all micro-batches in the fixed tree's order.
  // Every unsharded unit must have been resharded. Throws std::logic_error if a gradient is
  // missing.
  virtual void finish_backward() = 0;

  // The weights of shards() have changed: they were filled, loaded, or the optimizer has run. Must
  // be called by every rank before the next unshard(). Starts what brings them to the other ranks
  // and does not wait for it. Frozen units may have changed before the first call only.
  virtual void weights_updated() = 0;

  // What this rank's optimizer runs over, and what must be filled at first: whole units under ddp,
  // slices under the others. Stable for the life of the object. Spans of what is offloaded are
  // empty: visit_shards() has all.
  virtual std::span<const ParamShard> shards() const = 0;

  // This rank's disjoint share of the same storage (the shares of all ranks tile the model), for
  // norms, checkpoints and export. Spans of what is offloaded are empty: visit_owned() has all.
  virtual std::span<const ParamShard> owned() const = 0;

  // Calls `fill` for all that this rank computes with of base units, see Note [Base units] in
  // unit_storage.h, a part at a time, in order. Before the first weights_updated(). Their shards()
  // and owned() are empty.
  virtual void fill_base(const FillElems& fill) = 0;

  // Whether the host can read all of shards() where it is: nothing is offloaded or on a device.
  virtual bool is_in_host_memory() const = 0;
  // Calls `use` with shards() or owned() in order, with all of their state in memory while `use`
  // runs: the host's, but under kUpdate the device's. Shards that are not there come in parts that
  // begin at norm chunks. visit_owned() only reads.
  // Blocks. Throws OffloadError if state cannot be moved, and what `use` throws.
  virtual void visit_shards(StateAccess access, const UseShard& use) = 0;
  virtual void visit_owned(StateAccess access, const UseShard& use) = 0;
};

}  // namespace lockstep::runtime
