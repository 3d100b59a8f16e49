#include "runtime/model/activation_buffers.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

using common::ActivationCheckpointing;

// Carries the turns out for models of any depth: a block finds its record in its window, and no
// window is overwritten while its record is needed and nowhere else.
TEST(ActivationTurnsTest, EveryRecordIsThereWhenItsBlockRunsBackward) {
  for (int64_t num_blocks = 2; num_blocks < 20; ++num_blocks) {
    std::map<int64_t, int64_t> windows;  // window -> block
    std::map<int64_t, int64_t> stored;   // record -> block
    const auto window_of = [](int64_t block) { return (block - 1) % kActivationWindows; };
    for (int64_t block = 0; block + 1 < num_blocks; ++block) {
      // Its output is the next record's input; what was in that window is stored.
      const auto lost = windows.find(window_of(block + 1));
      EXPECT_TRUE(lost == windows.end() || stored.contains(lost->second - 1)) << num_blocks;
      windows[window_of(block + 1)] = block + 1;
      const int64_t record = written_after_forward(block, num_blocks);
      if (record >= 0) stored[record] = windows.at(window_of(block));
    }
    EXPECT_EQ(static_cast<int64_t>(stored.size()), num_stored_records(num_blocks));
    for (int64_t block = num_blocks - 1; block >= 1; --block) {
      EXPECT_EQ(windows.at(window_of(block)), block) << num_blocks;
      const int64_t record = read_after_backward(block);
      if (record >= 0) windows[window_of(block)] = stored.at(record);
    }
  }
}

// Keeps records in memory, moves them as late as it may, and garbles what it is about to read into:
// who uses a window too early has other numbers.
class MemoryStore final : public SavedStore {
 public:
  MemoryStore(int64_t num_records, int64_t record_bytes)
      : records_(static_cast<size_t>(num_records)),
        record_bytes_(static_cast<size_t>(record_bytes)) {}

  void start_write(int64_t record, std::span<const std::byte> from) override {
    finish();
    check(from);
    writing_ = record;
    from_ = from;
  }
  void start_read(int64_t record, std::span<std::byte> into) override {
    finish();
    check(into);
    std::fill(into.begin(), into.end(), std::byte{0xFF});  // NaN
    reading_ = record;
    into_ = into;
  }
  void finish() override {
    if (writing_ >= 0) {
      records_.at(static_cast<size_t>(writing_)).assign(from_.begin(), from_.end());
    }
    if (reading_ >= 0) {
      const std::vector<std::byte>& record = records_.at(static_cast<size_t>(reading_));
      std::copy(record.begin(), record.end(), into_.begin());
    }
    writing_ = reading_ = -1;
  }

 private:
  void check(std::span<const std::byte> bytes) const {
    EXPECT_EQ(bytes.size(), record_bytes_);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % kRecordBlockBytes, 0U);
  }

  std::vector<std::vector<std::byte>> records_;
  size_t record_bytes_;
  int64_t writing_ = -1;
  int64_t reading_ = -1;
  std::span<const std::byte> from_;
  std::span<std::byte> into_;
};

TEST(ActivationOffloadTest, GivesTheBitsOfActivationsInMemory) {
  TestModel model = odd_model();
  for (const int64_t layers : {1, 2, 3, 6}) {
    model.config.num_hidden_layers = layers;
    const UnitBuffers params = random_params(model.config, 7);
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const std::vector<int32_t> labels =
        random_tokens(model.shape.rows(), model.config.vocab_size, 2);
    const MicroBatchIo io = {.tokens = tokens.data(), .labels = labels.data(), .loss_scale = 0.01f};
    for (const auto mode : {ActivationCheckpointing::kNone, ActivationCheckpointing::kSelective,
                            ActivationCheckpointing::kBlock}) {
      for (const DType dtype : {DType::kFp32, DType::kBf16}) {
        Decoder kept(model.config, model.shape, mode, dtype);
        const PassResult expected = run_pass(kept, params, io, dtype);
        Decoder moved(model.config, model.shape, mode, dtype, /*offloads_saved=*/true);
        EXPECT_EQ(moved.num_saved_records(), std::max<int64_t>(0, layers - 2));
        moved.store_saved_in(
            std::make_unique<MemoryStore>(moved.num_saved_records(), moved.saved_record_bytes()));
        for (int pass = 0; pass < 2; ++pass) {
          const PassResult found = run_pass(moved, params, io, dtype);
          EXPECT_EQ(found.loss_sum, expected.loss_sum);
          EXPECT_EQ(found.gradients, expected.gradients) << layers << " " << to_string(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
