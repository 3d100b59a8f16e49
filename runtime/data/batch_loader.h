// Micro-batches of one rank in their order, filled ahead by threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/data/sample_source.h"

namespace lockstep::runtime {

struct BatchLoaderOptions {
  int64_t first_step = 0;              // finished steps: where the data goes on
  int64_t end_step = 0;                // nothing is read from there on
  std::vector<int64_t> micro_batches;  // this rank's of every step, in the order of computation
  int64_t num_threads = 2;             // 0: filled when asked for
  int64_t prefetch_batches = 2;        // micro-batches kept ready ahead of the one in use
};

struct LoadedBatch {
  int64_t step = 0;
  int64_t micro_batch = 0;
  MicroBatch data;
  // With the first micro-batch of a step: labels of the whole global batch.
  std::optional<int64_t> step_labels;
  int64_t step_first_predictions = 0;  // with it, as SampleSource::count_first_predictions()
};

// Which micro-batch comes when depends on the options alone, never on threads: batch number n is
// micro-batch n % M of step first_step + n / M.
class BatchLoader {
 public:
  // `samples` must outlive the object. Starts the threads.
  BatchLoader(const SampleSource& samples, BatchLoaderOptions options);
  // Stops and joins the threads; a batch at work is finished first.
  ~BatchLoader();

  // The next micro-batch, valid until the next call. Blocks until it is there. What went wrong with
  // a batch is told when its turn comes: errors as SampleSource::fill(), exceptions are thrown.
  // Must not be called more often than there are batches.
  common::Result<const LoadedBatch*> next();

 private:
  struct Slot {
    LoadedBatch batch;
    bool is_ready = false;               // guarded by mutex_
    std::optional<common::Error> error;  // with is_ready
    std::exception_ptr exception;        // with is_ready
  };

  void run(const std::stop_token& stop);
  void fill(int64_t number, Slot& slot) const;
  common::Result<void> try_fill(int64_t number, LoadedBatch& batch) const;
  Slot& slot_of(int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }

  const SampleSource& samples_;
  const BatchLoaderOptions options_;
  const int64_t num_batches_;

  std::mutex mutex_;
  std::condition_variable_any filled_;  // a slot became ready
  std::condition_variable_any freed_;   // a slot may be filled again
  std::vector<Slot> slots_;             // batch n in slot n % size; written by who fills n
  int64_t next_to_fill_ = 0;            // guarded by mutex_
  int64_t next_to_use_ = 0;             // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace lockstep::runtime
