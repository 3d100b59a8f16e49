#include "runtime/common/estimate_memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace lockstep::common {
namespace {

constexpr int64_t kFloatBytes = 4;
// Sizes of the runtime that results depend on: kNormChunkElems in kernels/elementwise.h, the chunk
// of logits in model/head.h, panels of kernels/attention_layout.h.
constexpr int64_t kSliceChunkElems = 1024;
constexpr int64_t kLossChunkElems = int64_t{4} << 20;
constexpr int64_t kMinLossChunkRows = 256;
constexpr int64_t kPanel = 32;
constexpr int64_t kQueryBlock = 64;
// Measured, see memory_estimate_test: what a rank has resident beside its buffers, most of it pages
// of libtorch. Two staging slots of 1 MiB per rank lie in shared memory, and every rank maps them
// all.
constexpr int64_t kProgramBytes = int64_t{126} << 20;
constexpr int64_t kStagingBytes = int64_t{2} << 20;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A part of the decoder's buffer begins on a cache line.
int64_t part(int64_t elems) {
  return round_up(elems, 16);
}

int64_t attention_scratch(int64_t seq, int64_t head_dim) {
  const int64_t padded_seq = round_up(seq, kPanel);
  const int64_t padded_dim = round_up(head_dim, kPanel);
  return 2 * padded_seq * head_dim + 3 * seq * padded_dim +
         2 * kQueryBlock * (padded_seq + 16 + padded_dim) + 16;
}

struct LayerElems {
  int64_t dear = 0, cheap = 0, scratch = 0;
};

// As the layouts in model/decoder_layer.cc.
LayerElems layer_elems(const ModelConfig& m, int64_t rows, int64_t seq) {
  const int64_t q = m.num_attention_heads * m.head_dim;
  const int64_t qkv = q + 2 * m.num_key_value_heads * m.head_dim;
  const int64_t attention =
      part(rows * q) + part(rows * qkv) + part(attention_scratch(seq, m.head_dim));
  const int64_t mlp = 2 * part(rows * m.intermediate_size);
  return {.dear = part(rows * q) + part(rows * m.num_attention_heads),
          .cheap = 2 * part(rows) + part(rows * qkv) + part(rows * m.hidden_size) +
                   part(rows * 2 * m.intermediate_size),
          .scratch = 2 * part(rows * m.hidden_size) + std::max(attention, mlp)};
}

void add_activations(const TrainConfig& train, MemoryEstimate& out) {
  const ModelConfig& m = train.model;
  const int64_t seq = train.data.sequence_length;
  const int64_t rows = train.batch.micro_batch_size * seq;
  const LayerElems layer = layer_elems(m, rows, seq);
  const bool shares_dear = train.activation_checkpointing == ActivationCheckpointing::kBlock;
  const bool shares_cheap = train.activation_checkpointing != ActivationCheckpointing::kNone;
  const int64_t num_dear = shares_dear ? 1 : m.num_hidden_layers;
  const int64_t num_cheap = shares_cheap ? 1 : m.num_hidden_layers;
  const int64_t stream = part(rows * m.hidden_size);
  const int64_t inputs_and_gradient = (m.num_hidden_layers + 2) * stream;
  const int64_t chunk_rows =
      std::min(rows, std::max(kMinLossChunkRows, kLossChunkElems / m.vocab_size));
  const int64_t head_scratch = 2 * stream + part(rows) + part(chunk_rows * m.vocab_size);
  out.activations = kFloatBytes * (inputs_and_gradient + num_dear * layer.dear +
                                   num_cheap * layer.cheap + layer.scratch + seq * m.head_dim);
  out.logits = kFloatBytes * std::max<int64_t>(0, head_scratch - layer.scratch);
}

// The subtrees of the tree over leaves [begin, end) that lie whole in [from, to): their sizes, from
// left to right. See Note [The tree] in parallel/reduction_tree.h.
void append_roots(int64_t begin, int64_t end, int64_t from, int64_t to,
                  std::vector<int64_t>& sizes) {
  if (end <= from || to <= begin) return;
  if (from <= begin && end <= to) {
    sizes.push_back(end - begin);
    return;
  }
  const int64_t split =
      begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin - 1)));
  append_roots(begin, split, from, to, sizes);
  append_roots(split, end, from, to, sizes);
}

// How many sums of a unit a rank keeps from one micro-batch to the next, at most, and how many
// roots it sends.
struct HeldSums {
  int64_t between = 0;
  int64_t roots = 1;
};

HeldSums held_sums(const std::vector<int64_t>& roots) {
  HeldSums held{.between = 0, .roots = static_cast<int64_t>(roots.size())};
  for (size_t done = 0; done < roots.size(); ++done) {
    for (int64_t leaf = 1; leaf <= roots[done]; ++leaf) {
      const bool is_last = done + 1 == roots.size() && leaf == roots[done];
      const int64_t sums = leaf == roots[done] ? 1 : std::popcount(static_cast<uint64_t>(leaf));
      if (!is_last) held.between = std::max(held.between, static_cast<int64_t>(done) + sums);
    }
  }
  return held;
}

// Of the rank that keeps most, with contiguous micro-batches.
HeldSums contiguous_sums(int64_t per_rank, int64_t ranks) {
  HeldSums most;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> roots;
    append_roots(0, per_rank * ranks, rank * per_rank, (rank + 1) * per_rank, roots);
    const HeldSums held = held_sums(roots);
    most = {std::max(most.between, held.between), std::max(most.roots, held.roots)};
  }
  return most;
}

// Units of one size: `padded` elements, `slice` of them a rank's.
struct SizeClass {
  int64_t padded = 0;
  int64_t slice = 0;
  int64_t count = 0;
};

std::vector<SizeClass> size_classes(const ModelConfig& model, int64_t ranks) {
  std::map<int64_t, int64_t> counts;  // by slice
  for (const int64_t elems : unit_parameters(model)) {
    const int64_t chunks = (elems + kSliceChunkElems - 1) / kSliceChunkElems;
    ++counts[(chunks + ranks - 1) / ranks * kSliceChunkElems];
  }
  std::vector<SizeClass> classes;
  classes.reserve(counts.size());
  for (const auto& [slice, count] : counts) classes.push_back({slice * ranks, slice, count});
  return classes;
}

// Elements beside the gradients themselves that a step's reduction needs for units of one size: at
// most two units are in exchange at a time.
int64_t reduction_elems(const SizeClass& units, bool sharded, int64_t per_rank, int64_t ranks) {
  const int64_t exchanged = std::min<int64_t>(units.count, 2);
  const int64_t current = per_rank > 1 ? 1 : 0;
  if (sharded && std::has_single_bit(static_cast<uint64_t>(ranks))) {
    // Every micro-step's gradient is exchanged at once: root and values of each, and the gradient
    // that is being written. Sums over micro-steps are slices.
    const int64_t in_flight = 2 * exchanged + (units.count > 2 ? 1 : 0);
    const int64_t between = held_sums({per_rank}).between;
    const int64_t slices = units.count * std::max<int64_t>(0, between - 1) + current;
    return in_flight * units.padded + slices * units.slice;
  }
  const HeldSums held = contiguous_sums(per_rank, ranks);
  const bool one_round = held.roots == 1;
  const int64_t values = one_round ? 0 : exchanged * held.roots;
  if (sharded) {
    const int64_t roots_and_values = exchanged * (one_round ? 2 : 1);
    return (std::max(units.count * held.between, roots_and_values) + 1 + values) * units.padded;
  }
  // The gradient's own buffer holds the oldest sum.
  const int64_t sums = units.count * std::max<int64_t>(0, held.between - 1);
  return (std::max(sums, one_round ? exchanged : 0) + current + values) * units.padded;
}

}  // namespace

std::vector<int64_t> unit_parameters(const ModelConfig& m) {
  const int64_t q = m.num_attention_heads * m.head_dim;
  const int64_t qkv = q + 2 * m.num_key_value_heads * m.head_dim;
  const int64_t layer =
      2 * m.hidden_size + m.hidden_size * (qkv + q) + 3 * m.hidden_size * m.intermediate_size;
  std::vector<int64_t> units(static_cast<size_t>(m.num_hidden_layers + 2), layer);
  units.front() = m.vocab_size * m.hidden_size;
  units.back() = m.hidden_size + (m.tie_word_embeddings ? 0 : m.vocab_size * m.hidden_size);
  return units;
}

int64_t num_parameters(const ModelConfig& model) {
  const std::vector<int64_t> units = unit_parameters(model);
  return std::accumulate(units.begin(), units.end(), int64_t{0});
}

MemoryEstimate estimate_memory(const TrainConfig& train, Strategy strategy, int64_t ranks) {
  const bool shards_moments = strategy != Strategy::kDdp;
  const bool shards_gradients = strategy == Strategy::kZero2 || strategy == Strategy::kZero3;
  const bool shards_weights = strategy == Strategy::kZero3;
  const int64_t per_rank = std::max<int64_t>(1, train.batch.num_micro_batches() / ranks);
  MemoryEstimate out;
  int64_t largest = 0;
  for (const SizeClass& units : size_classes(train.model, ranks)) {
    const int64_t padded = kFloatBytes * units.count * units.padded;
    const int64_t slice = kFloatBytes * units.count * units.slice;
    out.weights += shards_weights ? slice : padded;
    out.gradients += shards_gradients ? slice : padded;
    out.optimizer += 2 * (shards_moments ? slice : padded);
    out.partial_sums += kFloatBytes * reduction_elems(units, shards_gradients, per_rank, ranks);
    if (train.checkpoint.async) out.snapshot += 3 * slice;
    largest = std::max(largest, units.padded);
  }
  // The unit at work and the next; beside a head that borrows it, the embedding.
  const int64_t num_gathered = train.model.tie_word_embeddings ? 3 : 2;
  if (shards_weights) out.gathered = num_gathered * kFloatBytes * largest;
  add_activations(train, out);
  out.process = kProgramBytes + (ranks > 1 ? ranks * kStagingBytes : 0);
  return out;
}

}  // namespace lockstep::common
