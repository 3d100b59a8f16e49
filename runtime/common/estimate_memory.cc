#include "runtime/common/estimate_memory.h"

#include <algorithm>
#include <numeric>

#include "runtime/common/estimate_reduction.h"
#include "runtime/common/layer_layout.h"
#include "runtime/common/model_family.h"
#include "runtime/common/model_tensors.h"

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
// Of parallel/state_swapper.h: two windows of a piece, and room to align them.
constexpr int64_t kSwapWindows = 2;
constexpr int64_t kSwapPieceElems = int64_t{1} << 20;
constexpr int64_t kSwapBlockElems = 1024;
constexpr int64_t kActivationWindows = 3;
// Measured, see memory_estimate_test: what a rank has resident beside its buffers, and what it has
// more if it loads LibTorch for Gloo (whose own buffers are not counted). Else two staging slots of
// 1 MiB per rank lie in shared memory, and every rank maps them all.
constexpr int64_t kProgramBytes = int64_t{26} << 20;
constexpr int64_t kGlooBytes = int64_t{116} << 20;
constexpr int64_t kStagingBytes = int64_t{2} << 20;
// Of kernels/cuda: Device::row_factor; and, measured on an H100, a context with the code of our
// kernels and of cuBLAS, and the workspace of products.
constexpr int64_t kGpuRowFactor = 16;
constexpr int64_t kCudaBytes = int64_t{600} << 20;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A part of the decoder's buffer begins on a cache line.
int64_t part(int64_t elems) {
  return round_up(elems, 16);
}

int64_t attention_scratch(const TrainConfig& train, RankDevice device) {
  const int64_t seq = train.data.sequence_length;
  const int64_t head_dim = train.model.head_dim;
  const DType dtype = train.precision;
  if (device == RankDevice::kGpu) {
    return micro_batch_rows(train) * train.model.num_attention_heads * seq;
  }
  const int64_t padded_seq = round_up(seq, kPanel);
  const int64_t padded_dim = round_up(head_dim, kPanel);
  const int64_t wide_heads = dtype == DType::kFp32 ? 0 : 4 * part(seq * head_dim);
  return wide_heads + 2 * padded_seq * head_dim + 3 * seq * padded_dim +
         2 * kQueryBlock * (padded_seq + 16 + padded_dim) + 16;
}

struct LayerElems {
  int64_t dear = 0, cheap = 0, scratch = 0;
};

// Of a chunk that the head makes at once.
int64_t chunk_logits(const ModelConfig& m, int64_t rows, RankDevice device) {
  const int64_t factor = device == RankDevice::kGpu ? kGpuRowFactor : 1;
  const int64_t most = std::max(kMinLossChunkRows, kLossChunkElems / m.vocab_size);
  return std::min(rows, factor * most) * m.vocab_size;
}

// As the layouts in model/head.cc and model/score_head.cc.
//   sequences: that the rows are of.
int64_t head_scratch(const TrainConfig& train, int64_t rows, int64_t sequences, RankDevice device) {
  const ModelConfig& m = train.model;
  const NormKind norm = family_of(m).norm;
  const int64_t normed = m.has_score ? sequences + 1 : rows;
  const int64_t stats = norm == NormKind::kLayer ? 2 * normed : normed;
  const int64_t wide = norm == NormKind::kRms ? 0 : 2 * m.hidden_size;
  if (m.has_score) {
    return 3 * part(normed * m.hidden_size) + part(stats) + part(wide) + 2 * part(normed);
  }
  const int64_t chunk = chunk_logits(m, rows, device);
  const bool is_rounded = device == RankDevice::kGpu && train.precision != DType::kFp32;
  const int64_t rounded = is_rounded ? part((chunk + 1) / 2) : 0;
  return 2 * part(rows * m.hidden_size) + part(stats) + part(wide) +
         (m.logit_softcap > 0 ? 2 : 1) * part(chunk) + rounded;
}

void add_activations(const TrainConfig& train, RankDevice device, MemoryEstimate& out) {
  const ModelConfig& m = train.model;
  const int64_t seq = train.data.sequence_length;
  const int64_t rows = micro_batch_rows(train) * seq;
  const LayerLayout layout = lay_out_layer(m, micro_batch_rows(train), seq, train.precision,
                                           attention_scratch(train, device), train.lora);
  const LayerElems layer = {.dear = layout.dear.num_elems,
                            .cheap = layout.cheap.num_elems,
                            .scratch = layout.scratch.num_elems};
  const bool shares_dear = train.activation_checkpointing == ActivationCheckpointing::kBlock;
  const bool shares_cheap = train.activation_checkpointing != ActivationCheckpointing::kNone;
  const bool offloads = train.offload.activations == OffloadTarget::kNvme;
  const int64_t num_dear = shares_dear ? 1 : m.num_hidden_layers;
  const int64_t num_cheap = shares_cheap ? 1 : m.num_hidden_layers;
  const int64_t stream = part(rows * m.hidden_size);
  const int64_t inputs_and_gradient = (m.num_hidden_layers + 2) * stream;
  int64_t saved = inputs_and_gradient + num_dear * layer.dear + num_cheap * layer.cheap;
  if (offloads) {
    // Note [Records and windows] in model/activation_buffers.h.
    const int64_t shared = (shares_dear ? layer.dear : 0) + (shares_cheap ? layer.cheap : 0);
    const int64_t record = round_up(stream + layer.dear + layer.cheap - shared, kSwapBlockElems);
    const int64_t windows = std::min(kActivationWindows, m.num_hidden_layers + 1);
    saved = windows * record + shared + stream + kSwapBlockElems;
    out.nvme +=
        std::max<int64_t>(0, m.num_hidden_layers + 1 - kActivationWindows) * record * kFloatBytes;
  }
  const int64_t tables = family_of(m).has_learned_positions ? 0 : m.rope_local_theta > 0 ? 2 : 1;
  const int64_t rotary = tables * seq * m.rotary_dim();
  out.activations = kFloatBytes * (saved + layer.scratch + rotary);
  out.logits = kFloatBytes *
               std::max<int64_t>(
                   0, head_scratch(train, rows, micro_batch_rows(train), device) - layer.scratch);
}

std::vector<UnitSizes> unit_sizes(const TrainConfig& train, int64_t ranks) {
  std::vector<UnitSizes> units;
  for (const int64_t elems : unit_parameters(train)) {
    const int64_t chunks = (elems + kSliceChunkElems - 1) / kSliceChunkElems;
    const int64_t slice = (chunks + ranks - 1) / ranks * kSliceChunkElems;
    units.push_back({.slice = slice,
                     .padded = slice * ranks,
                     .is_frozen = is_frozen(train, static_cast<int64_t>(units.size()))});
  }
  return units;
}

size_t num_model_units(const ModelConfig& model) {
  return static_cast<size_t>(model.num_hidden_layers + 2);
}

int64_t sum_of(const std::vector<ModelTensor>& tensors) {
  int64_t sum = 0;
  for (const ModelTensor& tensor : tensors) sum += tensor.num_elems();
  return sum;
}

// Of buffers that hold gathered weights: of the unit at work and those ahead; beside a head that
// borrows it, the embedding. Adapters have buffers of their own.
int64_t gathered_bytes(const TrainConfig& train, const std::vector<UnitSizes>& units) {
  const auto beside = units.begin() + static_cast<std::ptrdiff_t>(num_model_units(train.model));
  const auto largest = [](auto begin, auto end) {
    int64_t most = 0;
    for (auto unit = begin; unit != end; ++unit) most = std::max(most, unit->padded);
    return most;
  };
  const int64_t at_work = 1 + train.parallelism.prefetch_units;
  const int64_t lent = train.model.tie_word_embeddings ? 1 : 0;
  return elem_bytes(train.precision) * ((at_work + lent) * largest(units.begin(), beside) +
                                        at_work * largest(beside, units.end()));
}

// Adds the model that a student learns from: see Note [The teacher] in train/teacher.h.
//   slices_kept: of each unit under zero3; 0: the weights are whole.
void add_teacher(const TrainConfig& train, int64_t ranks, int64_t slices_kept, RankDevice device,
                 MemoryEstimate& out) {
  TrainConfig own = train;
  own.model = train.distill.model;
  own.lora = {};
  own.offload = {};
  own.activation_checkpointing = ActivationCheckpointing::kBlock;
  const std::vector<UnitSizes> units = unit_sizes(own, ranks);
  for (const UnitSizes& unit : units) {
    const int64_t elems = slices_kept > 0 ? slices_kept * unit.slice : unit.padded;
    out.weights += elem_bytes(train.precision) * elems;
  }
  if (slices_kept > 0) out.gathered += gathered_bytes(own, units);
  MemoryEstimate passing;
  add_activations(own, device, passing);
  const int64_t rows = micro_batch_rows(train) * train.data.sequence_length;
  out.activations += passing.activations;
  out.logits += passing.logits + kFloatBytes * chunk_logits(own.model, rows, device);
}

// Moves to storage what the optimizer alone needs: moments, and masters beside compute copies.
//   slices_kept: of each unit, by a rank that does not have all of its moments; 0: it has all.
void offload_optimizer(const TrainConfig& train, const std::vector<UnitSizes>& units,
                       int64_t slices_kept, MemoryEstimate& out) {
  const bool is_mixed = train.precision != DType::kFp32;
  int64_t masters = 0;
  int64_t largest = 0;  // elements of a unit that has any state there
  for (const UnitSizes& unit : units) {
    if (unit.is_frozen && train.lora.is_on()) continue;  // no state
    const int64_t kept = slices_kept > 0 ? slices_kept * unit.slice : unit.padded;
    if (is_mixed) masters += kFloatBytes * kept;
    if (is_mixed || !unit.is_frozen) largest = std::max(largest, kept);
  }
  const int64_t moved = out.optimizer + masters;
  if (moved == 0) return;
  out.nvme += moved;
  out.optimizer = 0;
  out.weights -= masters;
  out.snapshot = 0;
  const int64_t kinds = num_moments(train.optimizer) + (is_mixed ? 1 : 0);
  out.windows =
      kSwapWindows * kFloatBytes * (kinds * std::min(kSwapPieceElems, largest) + kSwapBlockElems);
}

int64_t process_bytes(const TrainConfig& train, int64_t ranks, RankDevice device) {
  if (device == RankDevice::kGpu) return kCudaBytes;
  const bool has_gloo = train.communication.backend == CommunicationConfig::Backend::kGloo;
  return kProgramBytes + (has_gloo && ranks > 1 ? kGlooBytes : shared_memory_bytes(ranks));
}

}  // namespace

std::vector<int64_t> unit_parameters(const ModelConfig& m) {
  std::vector<int64_t> units(num_model_units(m), sum_of(layer_tensors(m, 0)));
  units.front() = sum_of(embedding_tensors(m));
  units.back() = sum_of(head_tensors(m));
  return units;
}

std::vector<int64_t> unit_parameters(const TrainConfig& train) {
  std::vector<int64_t> units = unit_parameters(train.model);
  if (!train.lora.is_on()) return units;
  units.insert(units.end(), static_cast<size_t>(train.model.num_hidden_layers),
               sum_of(adapter_tensors(train.model, train.lora, 0)));
  return units;
}

int64_t num_parameters(const ModelConfig& model) {
  const std::vector<int64_t> units = unit_parameters(model);
  return std::accumulate(units.begin(), units.end(), int64_t{0});
}

int64_t num_trained_parameters(const TrainConfig& train) {
  const std::vector<int64_t> units = unit_parameters(train);
  int64_t sum = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (!is_frozen(train, static_cast<int64_t>(unit))) sum += units[unit];
  }
  return sum;
}

MemoryEstimate estimate_memory(const TrainConfig& train, Strategy strategy, int64_t ranks,
                               RankDevice device) {
  const bool shards_moments = strategy != Strategy::kDdp;
  const bool shards_gradients = strategy == Strategy::kZero2 || strategy == Strategy::kZero3;
  const bool shards_weights = strategy == Strategy::kZero3;
  const bool is_mixed = train.precision != DType::kFp32;
  const int64_t compute_bytes = elem_bytes(train.precision);
  const ParallelismConfig& config = train.parallelism;
  const bool is_grouped = shards_weights && config.shard_ranks > 0;
  const int64_t slices_kept = is_grouped ? ranks / config.shard_ranks : 1;
  const int64_t moments = num_moments(train.optimizer);
  // A GPU's state is written from the GPU, while training stands still.
  const bool has_snapshot = device == RankDevice::kProcessor && saves_behind_training(train);
  MemoryEstimate out;
  const std::vector<UnitSizes> units = unit_sizes(train, ranks);
  for (const UnitSizes& unit : units) {
    const int64_t padded = kFloatBytes * unit.padded;
    const int64_t kept = kFloatBytes * slices_kept * unit.slice;
    const int64_t computed_with =
        compute_bytes * (shards_weights ? slices_kept * unit.slice : unit.padded);
    // Note [Compute copies] and Note [Base units] in parallel/unit_storage.h.
    const bool is_base = unit.is_frozen && train.lora.is_on();
    const bool has_masters = !(is_mixed && is_base);
    if (has_masters) out.weights += shards_weights || (is_mixed && shards_moments) ? kept : padded;
    if (is_mixed) out.weights += computed_with;
    const int64_t saved = is_base ? 0 : unit.is_frozen ? 1 : 1 + moments;  // floats per parameter
    if (has_snapshot) out.snapshot += saved * kFloatBytes * unit.slice;
    if (unit.is_frozen) continue;
    out.gradients += shards_gradients ? kept : padded;
    out.optimizer += moments * (shards_moments ? kept : padded);
  }
  if (train.offload.optimizer == OffloadTarget::kNvme) {
    offload_optimizer(train, units, shards_moments ? slices_kept : 0, out);
  }
  out.partial_sums = reduction_bytes(
      {.units = units,
       .strategy = strategy,
       .config = config,
       .ranks = ranks,
       .micro_batches_per_rank = std::max<int64_t>(1, train.batch.num_micro_batches() / ranks)});
  if (shards_weights) out.gathered = gathered_bytes(train, units);
  add_activations(train, device, out);
  const bool has_teacher = train.distill.model.vocab_size > 0;
  if (has_teacher) add_teacher(train, ranks, shards_weights ? slices_kept : 0, device, out);
  out.process = process_bytes(train, ranks, device);
  return out;
}

int64_t shared_memory_bytes(int64_t ranks) {
  return ranks > 1 ? ranks * kStagingBytes : 0;
}

}  // namespace lockstep::common
