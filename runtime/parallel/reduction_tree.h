// The order in which micro-batch gradients are added: fixed by their index alone, or by who has
// them.
//
// Note [The tree]
// T(n) over leaves 0..n-1 is a leaf for n = 1, else T(p) + T(n - p) with p the largest power of two
// below n. A binary counter of partial sums computes it: push leaves in order, merge two sums of
// the same size, at the end fold from the smallest (youngest) to the largest. A rank that holds a
// range of leaves contributes the sums of the maximal subtrees inside it; what is left is a short
// program of additions over these roots, the same for every element. For a power of two W, T(W * K)
// is T(K) over T(W): ranks may also add micro-step by micro-step and count over micro-steps. Source
// of the idea: design 7.3; binary counter as in pairwise summation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::runtime {

// kContiguous: rank r computes micro-batches [r M/W, (r+1) M/W), one exchange at the end.
// kInterleaved: micro-step k gives rank r micro-batch kW + r, one exchange per micro-step; in tree
// order W must be a power of two.
enum class Assignment { kContiguous, kInterleaved };

// kTree: Note [The tree]. kRunning: each rank adds up its micro-batches one after the other, then
// ranks are added in their order: less memory and traffic, other bits on every rank count.
enum class SumOrder { kTree, kRunning };

// values[target] += values[source]: target is the left operand.
struct Addition {
  int64_t target = 0;
  int64_t source = 0;
};

// An exchange: every rank computes the same number of micro-batches, adds them up to its roots, and
// in round i sends the slices of its i-th root. The values of an exchange are numbered round *
// world_size + rank; `additions` leaves its sum in value 0. The sums of all exchanges, in order,
// are the leaves of T(num_exchanges), or are added one after the other.
struct ReductionPlan {
  int world_size = 1;
  SumOrder order = SumOrder::kTree;
  std::vector<std::vector<int64_t>> micro_batches;  // [rank]: indices in the order of computation
  int64_t num_exchanges = 1;
  int64_t num_rounds = 1;                         // most roots that a rank has in an exchange
  std::vector<std::vector<int64_t>> root_leaves;  // [rank][root]: micro-batches in that root
  std::vector<Addition> additions;
};

// Throws std::invalid_argument if world_size does not divide num_micro_batches, or for kInterleaved
// in tree order with a world size that is no power of two.
ReductionPlan plan_reduction(int64_t num_micro_batches, int world_size, Assignment assignment,
                             SumOrder order = SumOrder::kTree);

// Note [Sums by hosts]
// Where L ranks of a host share memory, an exchange has two parts. Inside, the l-th rank of each
// host gets from its L neighbours the slices of the l-th ranks of all H hosts, and adds what forms
// subtrees of the tree: the roots of the host, R_h of them at most. Across, the l-th ranks exchange
// these and add the rest. Same tree, same bits. Of slices of S bytes, a host sends
//   without levels  R L (W - L) S    R roots of a rank at most
//   with them       R_h (W - L) S    R_h <= R L
// so with a power of two of ranks per host and micro-batches per rank (R = R_h = 1) a host sends
// one L-th. With R_h = R L nothing would be gained, and there are no levels.
struct HostReduction {
  int ranks_per_host = 1;
  // [host]: of its exchange inside, whose values are numbered round * L + rank in the host.
  std::vector<std::vector<Addition>> inside;
  // [host][root]: the value that then holds it.
  std::vector<std::vector<int64_t>> roots;
  int64_t num_rounds = 1;        // most roots of a host
  std::vector<Addition> across;  // values numbered round * H + host; leaves the sum in value 0
};

// Splits the exchanges of `plan`, whose ranks lie on hosts of `ranks_per_host` consecutive ones.
// Nothing if levels would not make a host send less. In running order the ranks of a host are added
// first, so that bits depend on the hosts, too.
std::optional<HostReduction> plan_host_reduction(const ReductionPlan& plan, int ranks_per_host);

}  // namespace lockstep::runtime
