#include "runtime/train/collective_bench.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>

#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/reduction_tree.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

// One verb at one size.
class Measured {
 public:
  Measured(Collective& collective, BenchVerb verb, int64_t num_bytes)
      : collective_(collective),
        verb_(verb),
        what_(std::string(to_string(verb)) + " of " + std::to_string(num_bytes) + " bytes"),
        slice_elems_(num_bytes / static_cast<int64_t>(sizeof(float)) / collective.world_size()),
        additions_(plan_reduction(collective.world_size(), collective.world_size(),
                                  Assignment::kContiguous)
                       .additions),
        input_(slice_elems_ * collective.world_size()),
        values_(slice_elems_ * collective.world_size()),
        full_(slice_elems_ * collective.world_size()) {
    for (int64_t i = 0; i < input_.num_elems(); ++i) {
      input_.data()[i] = bench_value(collective.rank(), i);
    }
  }

  void run() {
    switch (verb_) {
      case BenchVerb::kAllReduce:
        reduce_scatter();
        return gather(first_slice(values_));
      case BenchVerb::kAllGather:
        return gather(first_slice(input_));
      case BenchVerb::kReduceScatter:
        return reduce_scatter();
      case BenchVerb::kBroadcast:  // of what comes, rank 0's slice is the first
        scatter();
        return gather(first_slice(values_));
    }
  }

  // So that a value which does not come cannot be right.
  void spoil_results() {
    for (const FloatBuffer* buffer : {&values_, &full_}) {
      std::ranges::fill(buffer->elems(), std::numeric_limits<float>::quiet_NaN());
    }
  }

  int64_t num_wrong() const {
    const bool is_slice = verb_ == BenchVerb::kReduceScatter;
    return count_wrong(verb_, collective_.rank(), collective_.world_size(),
                       is_slice ? first_slice(values_) : full_.elems());
  }

 private:
  std::span<float> first_slice(const FloatBuffer& buffer) const {
    return buffer.elems().first(static_cast<size_t>(slice_elems_));
  }
  void scatter() {
    collective_.all_to_all(input_.bytes(), values_.bytes(), what_, Reach::kWorld)->wait();
  }
  void gather(std::span<const float> slice) {
    collective_.all_gather(std::as_bytes(slice), full_.bytes(), what_)->wait();
  }
  void reduce_scatter() {
    scatter();
    for (const Addition& addition : additions_) {
      float* const target = values_.data() + addition.target * slice_elems_;
      const float* const source = values_.data() + addition.source * slice_elems_;
      for (int64_t i = 0; i < slice_elems_; ++i) target[i] += source[i];
    }
  }

  Collective& collective_;
  BenchVerb verb_;
  std::string what_;
  int64_t slice_elems_;
  std::vector<Addition> additions_;
  FloatBuffer input_;
  FloatBuffer values_;  // by rank, the slice that it sent to this one; sums are left in the first
  FloatBuffer full_;
};

constexpr std::string_view kFigures = "bench figures";

BenchLine measure(Collective& collective, const BenchOptions& options, BenchVerb verb,
                  int64_t num_bytes) {
  using Clock = std::chrono::steady_clock;
  Measured measured(collective, verb, num_bytes);
  for (int64_t i = 0; i < options.warmup; ++i) measured.run();
  gather_values(collective, int64_t{0}, kFigures);
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < options.iterations; ++i) measured.run();
  const std::chrono::duration<double> taken = Clock::now() - begin;
  measured.spoil_results();
  measured.run();
  const std::vector<double> seconds = gather_values(collective, taken.count(), kFigures);
  const std::vector<int64_t> wrong = gather_values(collective, measured.num_wrong(), kFigures);
  return {.verb = verb,
          .num_bytes = num_bytes,
          .seconds = *std::ranges::max_element(seconds) / static_cast<double>(options.iterations),
          .num_wrong = std::accumulate(wrong.begin(), wrong.end(), int64_t{0})};
}

float expected_value(BenchVerb verb, int rank, int world_size, int64_t num_results, int64_t index) {
  if (verb == BenchVerb::kBroadcast) return bench_value(0, index);
  if (verb == BenchVerb::kAllGather) {
    const int64_t slice_elems = num_results / world_size;
    return bench_value(static_cast<int>(index / slice_elems), index % slice_elems);
  }
  const int64_t at = verb == BenchVerb::kReduceScatter ? rank * num_results + index : index;
  float sum = 0;
  for (int other = 0; other < world_size; ++other) sum += bench_value(other, at);
  return sum;
}

}  // namespace

float bench_value(int rank, int64_t index) {
  constexpr int64_t kNumValues = 127;  // prime: neighbours of a slice or of a rank differ
  return static_cast<float>((index * 31 + rank * int64_t{17} + 1) % kNumValues);
}

int64_t count_wrong(BenchVerb verb, int rank, int world_size, std::span<const float> result) {
  const auto num_results = static_cast<int64_t>(result.size());
  int64_t num_wrong = 0;
  for (int64_t i = 0; i < num_results; ++i) {
    const float expected = expected_value(verb, rank, world_size, num_results, i);
    if (!(result[static_cast<size_t>(i)] == expected)) ++num_wrong;  // NaN is never right
  }
  return num_wrong;
}

std::vector<BenchLine> bench_collectives(Collective& collective, const BenchOptions& options,
                                         const std::function<void(const BenchLine&)>& on_line) {
  const std::vector<int64_t> sizes = bench_sizes(options.sizes, collective.world_size());
  std::vector<BenchLine> lines;
  lines.reserve(kBenchVerbs.size() * sizes.size());
  for (const BenchVerb verb : kBenchVerbs) {
    for (const int64_t num_bytes : sizes) {
      lines.push_back(measure(collective, options, verb, num_bytes));
      on_line(lines.back());
    }
  }
  return lines;
}

}  // namespace lockstep::runtime
