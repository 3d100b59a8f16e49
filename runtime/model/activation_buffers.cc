#include "runtime/model/activation_buffers.h"

#include <algorithm>
#include <cassert>

#include "runtime/common/buffer_layout.h"

namespace lockstep::runtime {
namespace {

using common::Layout;

constexpr int64_t kBlockElems = kRecordBlockBytes / static_cast<int64_t>(sizeof(float));

int64_t whole_blocks(int64_t elems) {
  return (elems + kBlockElems - 1) / kBlockElems * kBlockElems;
}

SavedElems most_of(const std::vector<SavedElems>& saved) {
  SavedElems most;
  for (const SavedElems& of_block : saved) {
    most = {std::max(most.dear, of_block.dear), std::max(most.cheap, of_block.cheap)};
  }
  return most;
}

}  // namespace

int64_t num_stored_records(int64_t num_blocks) {
  return std::max<int64_t>(0, num_blocks - 1 - kActivationWindows);
}

int64_t written_after_forward(int64_t block, int64_t num_blocks) {
  return block >= 1 && block + kActivationWindows < num_blocks ? block - 1 : -1;
}

int64_t read_after_backward(int64_t block) {
  return block > kActivationWindows ? block - kActivationWindows - 1 : -1;
}

ActivationBuffers::ActivationBuffers(const ActivationSizes& sizes,
                                     common::ActivationCheckpointing checkpointing, bool offloads)
    : num_blocks_(static_cast<int64_t>(sizes.saved.size())),
      offloads_(offloads),
      x_(sizes.saved.size()),
      dear_(sizes.saved.size()),
      cheap_(sizes.saved.size()) {
  const bool shares_dear = checkpointing == common::ActivationCheckpointing::kBlock;
  const bool shares_cheap = checkpointing != common::ActivationCheckpointing::kNone;
  const SavedElems most = most_of(sizes.saved);
  Layout layout;
  if (offloads_) {
    layout.take(place_windows(sizes.stream_elems,
                              {shares_dear ? 0 : most.dear, shares_cheap ? 0 : most.cheap}));
  }
  const int64_t shared_dear = layout.take(shares_dear ? most.dear : 0);
  const int64_t shared_cheap = layout.take(shares_cheap ? most.cheap : 0);
  for (size_t i = 0; i < sizes.saved.size(); ++i) {
    if (!offloads_) {
      x_[i] = layout.take(i > 0 ? sizes.stream_elems : 0);
      dear_[i] = layout.take(shares_dear ? 0 : sizes.saved[i].dear);
      cheap_[i] = layout.take(shares_cheap ? 0 : sizes.saved[i].cheap);
    }
    if (shares_dear) dear_[i] = shared_dear;
    if (shares_cheap) cheap_[i] = shared_cheap;
  }
  scratch_ = layout.take(sizes.scratch_elems);
  gradient_ = layout.take(sizes.stream_elems);
  floats_ = FloatBuffer(layout.num_elems() + (offloads_ ? kBlockElems : 0));
}

int64_t ActivationBuffers::place_windows(int64_t stream_elems, const SavedElems& most) {
  Layout record;
  record.take(stream_elems);
  const int64_t dear = record.take(most.dear);
  const int64_t cheap = record.take(most.cheap);
  record_elems_ = whole_blocks(record.num_elems());
  for (int64_t block = 1; block < num_blocks_; ++block) {
    const auto i = static_cast<size_t>(block);
    x_[i] = (block - 1) % kActivationWindows * record_elems_;
    dear_[i] = x_[i] + dear;
    cheap_[i] = x_[i] + cheap;
  }
  return std::min(kActivationWindows, num_blocks_ - 1) * record_elems_;
}

// Offsets count from it: the first whole block where records are transferred.
float* ActivationBuffers::base() const {
  if (!offloads_) return floats_.data();
  const auto address = reinterpret_cast<uintptr_t>(floats_.data());
  const auto past = static_cast<int64_t>(address % kRecordBlockBytes);
  const int64_t skipped = past == 0 ? 0 : kRecordBlockBytes - past;
  return floats_.data() + skipped / static_cast<int64_t>(sizeof(float));
}

BlockBuffers ActivationBuffers::of(int64_t block) const {
  const auto i = static_cast<size_t>(block);
  const bool is_first = block == 0;
  const bool is_last = block + 1 == num_blocks_;
  float* const gradient = base() + gradient_;
  return {.x = is_first ? nullptr : base() + x_[i],
          .y = is_last ? nullptr : base() + x_[i + 1],
          .dy = is_last ? nullptr : gradient,
          .dx = is_first ? nullptr : gradient,
          .dear = base() + dear_[i],
          .cheap = base() + cheap_[i],
          .scratch = base() + scratch_};
}

std::span<std::byte> ActivationBuffers::window_of(int64_t block) const {
  return std::as_writable_bytes(
      std::span(base() + x_[static_cast<size_t>(block)], static_cast<size_t>(record_elems_)));
}

// A backward that ended early, below it frozen blocks only, may have left a read under way.
void ActivationBuffers::before_forward(int64_t block) {
  if (store_ != nullptr && block == 0) store_->finish();
}

// Waits for the record before, whose window the next block writes its output into.
void ActivationBuffers::after_forward(int64_t block) {
  if (store_ == nullptr) return;
  store_->finish();
  const int64_t record = written_after_forward(block, num_blocks_);
  if (record >= 0) store_->start_write(record, window_of(block));
}

void ActivationBuffers::after_backward(int64_t block) {
  if (store_ == nullptr) return;
  store_->finish();
  const int64_t record = read_after_backward(block);
  if (record >= 0) store_->start_read(record, window_of(block));
}

}  // namespace lockstep::runtime
