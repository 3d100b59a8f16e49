#include "runtime/parallel/reduction_tree.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::runtime {
namespace {

// Leaves [begin, end) of a tree: a node of it, or what a rank holds.
struct LeafRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const LeafRange&) const = default;
};

// The right child of a node begins here. See Note [The tree].
int64_t split_of(const LeafRange& node) {
  return node.begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(node.size() - 1)));
}

// Appends the maximal subtrees of `node` that lie in `held`, from left to right.
void append_roots(const LeafRange& node, const LeafRange& held, std::vector<LeafRange>& roots) {
  if (node.end <= held.begin || held.end <= node.begin) return;
  if (held.begin <= node.begin && node.end <= held.end) {
    roots.push_back(node);
    return;
  }
  const int64_t split = split_of(node);
  append_roots({node.begin, split}, held, roots);
  append_roots({split, node.end}, held, roots);
}

// A root and the number of its value in the exchange.
struct NumberedRoot {
  LeafRange leaves;
  int64_t value = 0;
};

// Appends the additions that evaluate `node` from the roots in it (`next` walks over all roots from
// left to right); returns the value that then holds the node's sum.
int64_t append_additions(const LeafRange& node, const std::vector<NumberedRoot>& roots,
                         size_t& next, std::vector<Addition>& additions) {
  if (roots[next].leaves == node) return roots[next++].value;
  const int64_t split = split_of(node);
  const int64_t left = append_additions({node.begin, split}, roots, next, additions);
  const int64_t right = append_additions({split, node.end}, roots, next, additions);
  additions.push_back({left, right});
  return left;
}

// Roots and additions of one exchange over `num_leaves` leaves, an equal range per rank.
void plan_exchange(int64_t num_leaves, ReductionPlan& plan) {
  const int64_t per_rank = num_leaves / plan.world_size;
  std::vector<NumberedRoot> roots;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    std::vector<LeafRange> held;
    append_roots({0, num_leaves}, {rank * per_rank, (rank + 1) * per_rank}, held);
    std::vector<int64_t> leaves;
    for (const LeafRange& root : held) {
      const auto round = static_cast<int64_t>(leaves.size());
      roots.push_back({root, round * plan.world_size + rank});
      leaves.push_back(root.size());
    }
    plan.num_rounds = std::max(plan.num_rounds, static_cast<int64_t>(leaves.size()));
    plan.root_leaves.push_back(std::move(leaves));
  }
  size_t next = 0;
  append_additions({0, num_leaves}, roots, next, plan.additions);
}

// The same in running order: every rank has one root.
void plan_running_exchange(int64_t num_leaves, ReductionPlan& plan) {
  const auto world_size = static_cast<size_t>(plan.world_size);
  plan.root_leaves.assign(world_size, {num_leaves / plan.world_size});
  for (int64_t rank = 1; rank < plan.world_size; ++rank) plan.additions.push_back({0, rank});
}

// Inside of one host in running order: one root.
void add_running_host(HostReduction& hosts) {
  std::vector<Addition> additions;
  for (int64_t rank = 1; rank < hosts.ranks_per_host; ++rank) additions.push_back({0, rank});
  hosts.inside.push_back(std::move(additions));
  hosts.roots.push_back({0});
}

// Leaves of an exchange that rank 0 .. num_ranks - 1 hold together.
int64_t leaves_before(const ReductionPlan& plan, int num_ranks) {
  int64_t leaves = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (const int64_t root : plan.root_leaves[static_cast<size_t>(rank)]) leaves += root;
  }
  return leaves;
}

// Inside of host `host` in tree order; returns the leaves of its roots.
std::vector<LeafRange> add_host(const ReductionPlan& plan, int host, HostReduction& hosts) {
  const int per_host = hosts.ranks_per_host;
  const LeafRange whole{0, leaves_before(plan, plan.world_size)};
  std::vector<NumberedRoot> of_ranks;
  int64_t begin = leaves_before(plan, host * per_host);
  const LeafRange held{begin, leaves_before(plan, (host + 1) * per_host)};
  for (int place = 0; place < per_host; ++place) {
    int64_t round = 0;
    for (const int64_t leaves : plan.root_leaves[static_cast<size_t>(host * per_host + place)]) {
      of_ranks.push_back({{begin, begin + leaves}, round++ * per_host + place});
      begin += leaves;
    }
  }
  std::vector<LeafRange> found;
  append_roots(whole, held, found);
  std::vector<Addition> additions;
  std::vector<int64_t> values;
  values.reserve(found.size());
  size_t next = 0;
  for (const LeafRange& root : found) {
    values.push_back(append_additions(root, of_ranks, next, additions));
  }
  hosts.inside.push_back(std::move(additions));
  hosts.roots.push_back(std::move(values));
  return found;
}

}  // namespace

std::optional<HostReduction> plan_host_reduction(const ReductionPlan& plan, int ranks_per_host) {
  const int num_hosts = plan.world_size / ranks_per_host;
  if (ranks_per_host == 1 || num_hosts == 1) return std::nullopt;
  HostReduction hosts{.ranks_per_host = ranks_per_host};
  std::vector<NumberedRoot> roots;
  for (int host = 0; host < num_hosts; ++host) {
    if (plan.order == SumOrder::kRunning) {
      add_running_host(hosts);
      if (host > 0) hosts.across.push_back({0, host});
      continue;
    }
    int64_t round = 0;
    for (const LeafRange& root : add_host(plan, host, hosts)) {
      roots.push_back({root, round++ * num_hosts + host});
    }
    hosts.num_rounds = std::max(hosts.num_rounds, round);
  }
  size_t next = 0;
  const LeafRange whole{0, leaves_before(plan, plan.world_size)};
  if (plan.order == SumOrder::kTree) append_additions(whole, roots, next, hosts.across);
  if (hosts.num_rounds >= plan.num_rounds * ranks_per_host) return std::nullopt;
  return hosts;
}

ReductionPlan plan_reduction(int64_t num_micro_batches, int world_size, Assignment assignment,
                             SumOrder order) {
  if (world_size < 1 || num_micro_batches < 1 || num_micro_batches % world_size != 0) {
    throw std::invalid_argument(std::to_string(world_size) + " ranks do not divide " +
                                std::to_string(num_micro_batches) + " micro-batches");
  }
  const bool interleaved = assignment == Assignment::kInterleaved;
  if (interleaved && order == SumOrder::kTree &&
      !std::has_single_bit(static_cast<unsigned>(world_size))) {
    throw std::invalid_argument("interleaved micro-batches need a power of two of ranks, not " +
                                std::to_string(world_size));
  }
  const int64_t per_rank = num_micro_batches / world_size;
  ReductionPlan plan;
  plan.world_size = world_size;
  plan.order = order;
  plan.num_exchanges = interleaved ? per_rank : 1;
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<int64_t> indices;
    indices.reserve(static_cast<std::size_t>(per_rank));
    for (int64_t k = 0; k < per_rank; ++k) {
      indices.push_back(interleaved ? k * world_size + rank : rank * per_rank + k);
    }
    plan.micro_batches.push_back(std::move(indices));
  }
  const int64_t num_leaves = interleaved ? world_size : num_micro_batches;
  if (order == SumOrder::kTree) {
    plan_exchange(num_leaves, plan);
  } else {
    plan_running_exchange(num_leaves, plan);
  }
  return plan;
}

}  // namespace lockstep::runtime
