#include "operator/cli/memory_fix.h"

#include "runtime/common/choose_strategy.h"

namespace lockstep::cli {
namespace {

using common::ActivationCheckpointing;
using common::Strategy;
using common::TrainConfig;

// A job under change, with what has been changed.
struct ChangedJob {
  TrainConfig train;
  Strategy strategy = Strategy::kDdp;
  int64_t ranks = 1;
  MemoryFix fix{};

  void note(const std::string& what, const std::string& from, const std::string& to) {
    fix.changes.push_back(what + " " + from + " -> " + to);
  }
};

ChangedJob with_strategy(ChangedJob changed, Strategy strategy) {
  if (changed.strategy == strategy) return changed;
  const std::string name(common::to_string(strategy));
  changed.note("strategy", std::string(common::to_string(changed.strategy)), name);
  changed.fix.sets.push_back("train.parallelism.strategy=" + name);
  changed.strategy = strategy;
  return changed;
}

ChangedJob with_micro_batch(ChangedJob changed, int64_t micro_batch) {
  common::BatchConfig& batch = changed.train.batch;
  if (batch.micro_batch_size == micro_batch) return changed;
  const std::string size = std::to_string(micro_batch);
  changed.note("microBatchSize", std::to_string(batch.micro_batch_size), size);
  // All of the section: beside accumulationSteps alone, the global batch would change.
  changed.fix.sets.push_back(
      "train.batch={globalBatchSize: " + std::to_string(batch.global_batch_size) +
      ", microBatchSize: " + size + "}");
  batch.micro_batch_size = micro_batch;
  return changed;
}

ChangedJob with_checkpointing(ChangedJob changed) {
  if (changed.train.activation_checkpointing == ActivationCheckpointing::kBlock) return changed;
  const bool is_selective =
      changed.train.activation_checkpointing == ActivationCheckpointing::kSelective;
  changed.note("activationCheckpointing", is_selective ? "selective" : "none", "block");
  changed.fix.sets.emplace_back("train.activationCheckpointing=block");
  changed.train.activation_checkpointing = ActivationCheckpointing::kBlock;
  return changed;
}

ChangedJob with_ranks(ChangedJob changed, int64_t ranks) {
  changed.note("ranks", std::to_string(changed.ranks), std::to_string(ranks));
  changed.fix.sets.push_back("ranks=" + std::to_string(ranks));
  changed.ranks = ranks;
  return changed;
}

// Sizes below the job's that keep its global batch, the largest first.
std::vector<int64_t> smaller_micro_batches(const TrainConfig& train, int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t size = train.batch.micro_batch_size - 1; size > 0; --size) {
    if (train.batch.global_batch_size % (size * ranks) == 0) sizes.push_back(size);
  }
  return sizes;
}

// What may be changed, the cheapest first.
std::vector<ChangedJob> changed_jobs(const ChangedJob& job) {
  std::vector<ChangedJob> all;
  const bool has_groups = job.train.parallelism.shard_ranks > 0;  // which are zero3's alone
  for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    if (!has_groups && job.ranks > 1) all.push_back(with_strategy(job, strategy));
  }
  const ChangedJob sharded =
      has_groups || job.ranks == 1 ? job : with_strategy(job, Strategy::kZero3);
  const std::vector<int64_t> sizes = smaller_micro_batches(job.train, job.ranks);
  for (const int64_t size : sizes) {
    all.push_back(with_micro_batch(job, size));
    all.push_back(with_micro_batch(sharded, size));
  }
  ChangedJob smallest = with_checkpointing(sharded);
  all.push_back(smallest);
  for (const int64_t size : sizes) {
    smallest = with_checkpointing(with_micro_batch(sharded, size));
    all.push_back(smallest);
  }
  if (has_groups) return all;
  for (const ChangedJob& base : {sharded, with_checkpointing(sharded), smallest}) {
    for (const int64_t ranks : common::rank_counts_for(base.train.batch.num_micro_batches())) {
      if (ranks <= job.ranks) continue;
      all.push_back(with_strategy(with_ranks(base, ranks), Strategy::kZero3));
    }
  }
  return all;
}

}  // namespace

std::optional<MemoryFix> find_memory_fix(const TrainConfig& train, Strategy strategy, int64_t ranks,
                                         const RankMemory& memory) {
  if (!memory.limit_bytes) return std::nullopt;
  const auto total = [&memory](const ChangedJob& changed) {
    return common::estimate_memory(changed.train, changed.strategy, changed.ranks, memory.device)
        .total();
  };
  const ChangedJob job{.train = train, .strategy = strategy, .ranks = ranks};
  if (total(job) <= *memory.limit_bytes) return std::nullopt;
  for (ChangedJob& changed : changed_jobs(job)) {
    changed.fix.total_bytes = total(changed);
    if (changed.fix.total_bytes <= *memory.limit_bytes) return std::move(changed.fix);
  }
  return std::nullopt;
}

}  // namespace lockstep::cli
