#include "runtime/data/batch_loader.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <pthread.h>

namespace lockstep::runtime {

using common::Result;

BatchLoader::BatchLoader(const SampleSource& samples, BatchLoaderOptions options)
    : samples_(samples),
      options_(std::move(options)),
      num_batches_(std::max<int64_t>(0, options_.end_step - options_.first_step) *
                   static_cast<int64_t>(options_.micro_batches.size())),
      // The one in use, and those ahead of it.
      slots_(static_cast<std::size_t>(
          options_.num_threads == 0 ? 1 : 1 + std::max<int64_t>(1, options_.prefetch_batches))) {
  threads_.reserve(static_cast<std::size_t>(options_.num_threads));
  for (int64_t i = 0; i < options_.num_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(threads_.back().native_handle(), ("loader-" + std::to_string(i)).c_str());
  }
}

BatchLoader::~BatchLoader() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();  // joins, before what the threads use goes away
}

Result<const LoadedBatch*> BatchLoader::next() {
  std::unique_lock lock(mutex_);
  const int64_t number = next_to_use_++;
  assert(number < num_batches_);
  Slot& slot = slot_of(number);
  if (options_.num_threads == 0) {
    lock.unlock();
    fill(number, slot);
  } else {
    // The slot of the batch before is free from here on.
    freed_.notify_all();
    filled_.wait(lock, [&slot] { return slot.is_ready; });
    slot.is_ready = false;
  }
  if (slot.exception) std::rethrow_exception(slot.exception);
  if (slot.error) return *slot.error;
  return &slot.batch;
}

void BatchLoader::run(const std::stop_token& stop) {
  const auto ahead = static_cast<int64_t>(slots_.size()) - 1;
  std::unique_lock lock(mutex_);
  while (true) {
    // Batch next_to_use_ - 1 is in use, so the slots of the `ahead` batches after it are free.
    const bool may_fill = freed_.wait(lock, stop, [&] {
      return next_to_fill_ < num_batches_ && next_to_fill_ < next_to_use_ + ahead;
    });
    if (!may_fill || stop.stop_requested()) return;
    const int64_t number = next_to_fill_++;
    Slot& slot = slot_of(number);
    lock.unlock();
    fill(number, slot);
    lock.lock();
    slot.is_ready = true;
    filled_.notify_all();
  }
}

void BatchLoader::fill(int64_t number, Slot& slot) const {
  slot.error.reset();
  slot.exception = nullptr;
  try {
    if (Result<void> filled = try_fill(number, slot.batch); !filled) slot.error = filled.error();
  } catch (...) {
    slot.exception = std::current_exception();  // for the thread that asks for the batch
  }
}

Result<void> BatchLoader::try_fill(int64_t number, LoadedBatch& batch) const {
  const auto per_step = static_cast<int64_t>(options_.micro_batches.size());
  batch.step = options_.first_step + number / per_step;
  batch.micro_batch = options_.micro_batches[static_cast<std::size_t>(number % per_step)];
  batch.step_labels.reset();
  if (number % per_step == 0) {
    ASSIGN_OR_RETURN(batch.step_labels, samples_.count_labels(batch.step));
    if (samples_.samples().rows_per_sample() > 1) {
      batch.step_first_predictions = samples_.count_first_predictions(batch.step);
    }
  }
  return samples_.fill(batch.step, batch.micro_batch, batch.data);
}

}  // namespace lockstep::runtime
