#include "runtime/checkpoint/writer.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/checkpoint/reader.h"
#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/checkpoint/test_model.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WriterTest : public ::testing::Test {
 protected:
  void save(int64_t step, int64_t attempt = 1, int64_t keep = 2, int64_t ranks = 2,
            const EvaluationHistory& evaluations = {}) {
    const auto published =
        save_test_model(*disk_, folder_.path(), step, attempt, ranks, keep, evaluations);
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_TRUE(published->warnings.empty());
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

  TempFolder folder_;
  std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(WriterTest, KeepsTheNewestCheckpoints) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  EXPECT_THAT(names(), ElementsAre("step-40", "step-50"));
  save(60, 1, 1);
  EXPECT_THAT(names(), ElementsAre("step-60"));
}

// Of the two that stay each has its best one beside it.
TEST_F(WriterTest, SparesTheBestOnesThatKeptCheckpointsName) {
  const auto best_is = [](int64_t step) {
    return EvaluationHistory{.last_step = step, .best_step = step, .keeps_best = true};
  };
  for (int64_t step = 10; step <= 50; step += 10) save(step, 1, 2, 1, best_is(20));
  EXPECT_THAT(names(), ElementsAre("step-20", "step-40", "step-50"));
  save(60, 1, 2, 1, best_is(60));
  EXPECT_THAT(names(), ElementsAre("step-20", "step-50", "step-60"));
  save(70, 1, 2, 1, best_is(60));
  EXPECT_THAT(names(), ElementsAre("step-60", "step-70"));
  EvaluationHistory unwanted = best_is(60);
  unwanted.keeps_best = false;
  save(80, 1, 1, 1, unwanted);
  EXPECT_THAT(names(), ElementsAre("step-80"));
}

// Which best one a checkpoint needs that cannot be read for now is unknown, so none goes away.
TEST_F(WriterTest, PrunesNothingWhileACheckpointThatStaysCannotBeRead) {
  const EvaluationHistory best{.last_step = 10, .best_step = 10, .keeps_best = true};
  for (int64_t step = 10; step <= 30; step += 10) save(step, 1, 2, 1, best);
  const fs::path manifest = folder_ / "checkpoints/step-30/manifest.json";
  fs::rename(manifest, folder_ / "manifest");
  fs::create_directory(manifest);  // opens, and cannot be read
  const EvaluationHistory new_best{.last_step = 40, .best_step = 40, .keeps_best = true};
  const auto published = save_test_model(*disk_, folder_.path(), 40, 1, 1, 2, new_best);
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_THAT(published->warnings, ElementsAre(HasSubstr("step-30/manifest.json")));
  EXPECT_THAT(names(), ElementsAre("step-10", "step-20", "step-30", "step-40"));
  fs::remove(manifest);
  fs::rename(folder_ / "manifest", manifest);
  save(50, 1, 3, 1, new_best);
  EXPECT_THAT(names(), ElementsAre("step-10", "step-30", "step-40", "step-50"));
}

// One that is damaged is never gone on from, so it needs no other.
TEST_F(WriterTest, ADamagedCheckpointKeepsNoBestOne) {
  const EvaluationHistory best{.last_step = 10, .best_step = 10, .keeps_best = true};
  for (int64_t step = 10; step <= 30; step += 10) save(step, 1, 2, 1, best);
  fs::remove(folder_ / "checkpoints/step-30/rank-0.bin");
  save(40, 1, 2, 1, {.last_step = 40, .best_step = 40, .keeps_best = true});
  EXPECT_THAT(names(), ElementsAre("step-30", "step-40"));
}

TEST_F(WriterTest, NeverPrunesWhatItPublishedNorNewerOnes) {
  save(100);
  save(50, 2, 1);
  EXPECT_THAT(names(), ElementsAre("step-100", "step-50"));
}

TEST_F(WriterTest, PublishedCheckpointSurvivesAPowerCutRightAfter) {
  save(10);
  FaultyDisk disk(Fault::kFailOnce, INT64_MAX);
  ASSERT_TRUE(save_test_model(disk, folder_.path(), 20, 1, 2, 5));
  disk.cut_power();
  const auto opened = open_newest(folder_.path());
  EXPECT_EQ(opened->reader.manifest().step, 20);
  EXPECT_TRUE(verify_test_model(opened->reader, 1));
}

TEST_F(WriterTest, PublishedStepFencesOffALaterPublish) {
  save(10, 2);
  const auto late = save_test_model(*disk_, folder_.path(), 10, 1, 3, 2);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(late.error().message, HasSubstr("step-10"));
  EXPECT_EQ(open_newest(folder_.path())->reader.manifest().attempt, 2);
}

// A rank of a lost node: its attempt was given up, it lives on, sees the output, and is ahead.
TEST_F(WriterTest, AZombieOfAnEarlierAttemptPublishesNothingOnceALaterOneHasTakenOver) {
  const std::string run(kTestRun);
  ASSERT_TRUE(prepare_output(*disk_, folder_.path(), {.run = run, .attempt = 1}));
  save(10, 1);
  const ShardTarget target{.output = folder_.path(), .attempt = 1, .step = 20, .rank = 0};
  Manifest under_way = test_manifest(20, 1, 1);
  under_way.pieces = *write_test_shards(*disk_, target, 1);

  ASSERT_TRUE(prepare_output(*disk_, folder_.path(), {.run = run, .attempt = 2}));
  const auto swept = publish(*disk_, folder_.path(), run, under_way, 2);
  ASSERT_FALSE(swept) << "what it was saving is removed";
  for (const int64_t step : {20, 30}) {
    const auto late = save_test_model(*disk_, folder_.path(), step, 1, 2, 1);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::kGone);
    EXPECT_THAT(late.error().message, HasSubstr("attempt 2 has taken over"));
  }
  EXPECT_EQ(open_newest(folder_.path())->reader.manifest().step, 10);
  EXPECT_TRUE(verify_test_model(open_newest(folder_.path())->reader, 1)) << "nothing is pruned";
  save(20, 2);
  EXPECT_EQ(open_newest(folder_.path())->reader.manifest().attempt, 2);
  EXPECT_THAT(names(), ElementsAre("step-10", "step-20"));
}

TEST_F(WriterTest, AnotherRunsOutputIsNotPublishedInto) {
  for (const char* holder : {R"({"run":"other","attempt":0})", "touched by hand", "[]"}) {
    write_text(folder_ / "run.json", holder);
    const auto late = save_test_model(*disk_, folder_.path(), 10, 5, 1, 2);
    ASSERT_FALSE(late) << holder;
    EXPECT_EQ(late.error().code, ErrorCode::kGone) << holder;
  }
  EXPECT_FALSE(open_newest(folder_.path()).has_value());
}

TEST_F(WriterTest, RemovesLeftoversOfEarlierAttemptsAndStepsOnly) {
  for (const char* name : {".attempt-1-step-99", ".attempt-2-step-10", ".attempt-2-step-30",
                           ".attempt-3-step-10", ".pruned-step-5", "damaged-step-7", "mine"}) {
    write_text(folder_ / ("checkpoints/" + std::string(name) + "/rank-0.bin"), "x");
  }
  save(20, 2);
  EXPECT_THAT(names(), ElementsAre(".attempt-2-step-30", ".attempt-3-step-10", "damaged-step-7",
                                   "mine", "step-20"));
}

TEST_F(WriterTest, ShardsOfAnEarlierTryWithMoreRanksAreNotPublished) {
  for (int64_t rank = 0; rank < 4; ++rank) {
    const ShardTarget target{.output = folder_.path(), .attempt = 1, .step = 10, .rank = rank};
    ASSERT_TRUE(write_test_shards(*disk_, target, 4));
  }
  save(10);
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints/step-10/rank-2.bin"));
  EXPECT_TRUE(verify_test_model(open_newest(folder_.path())->reader, 1));
}

TEST_F(WriterTest, RefusesToPublishWithoutAShard) {
  save(5);
  const ShardTarget target{.output = folder_.path(), .attempt = 1, .step = 10, .rank = 0};
  Manifest manifest = test_manifest(10, 1, 2);
  manifest.pieces = *write_test_shards(*disk_, target, 2);
  const auto gap = publish(*disk_, folder_.path(), std::string(kTestRun), manifest, 2);
  ASSERT_FALSE(gap);
  EXPECT_EQ(gap.error().code, ErrorCode::kDataLoss);

  manifest.pieces = *write_test_shards(*disk_, target, 1);
  fs::remove(folder_ / "checkpoints/.attempt-1-step-10/rank-0.bin");
  const auto missing = publish(*disk_, folder_.path(), std::string(kTestRun), manifest, 2);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("rank-0.bin"));
  EXPECT_EQ(open_newest(folder_.path())->reader.manifest().step, 5);
}

TEST_F(WriterTest, UnwritablePlaceIsAnErrorWithPathAndReason) {
  write_text(folder_ / "file", "");
  const auto pieces = write_test_shards(
      *disk_, {.output = folder_ / "file", .attempt = 1, .step = 10, .rank = 0}, 1);
  ASSERT_FALSE(pieces);
  EXPECT_THAT(pieces.error().message, HasSubstr(folder_ / "file"));
  EXPECT_THAT(pieces.error().message, HasSubstr("Not a directory"));

  const auto full = disk_->open("/dev/full", OpenMode::kExisting);
  ASSERT_TRUE(full);
  const std::byte byte{1};
  const auto written = disk_->write_at(**full, 0, std::span(&byte, 1));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/full: No space left on device"));
  EXPECT_FALSE(written.error().hint.empty());
}

TEST_F(WriterTest, SetAsideCheckpointIsKeptButNeverFoundAndItsStepCanBePublishedAgain) {
  save(10);
  save(20);
  EXPECT_EQ(*set_aside_checkpoint(*disk_, folder_.path(), 20),
            folder_ / "checkpoints/damaged-step-20");
  EXPECT_EQ(open_newest(folder_.path())->reader.manifest().step, 10);
  save(20);
  EXPECT_EQ(*set_aside_checkpoint(*disk_, folder_.path(), 20),
            folder_ / "checkpoints/damaged-step-20-2");
  EXPECT_THAT(names(), ElementsAre("damaged-step-20", "damaged-step-20-2", "step-10"));
}

// Step 10 is there; step 20 is being saved by two ranks, keeping one, when call k fails or the
// process ends. For every k the newest checkpoint is 10 or 20, whole; if publish() returned, it is
// 20; and the next attempt saves as if nothing had been.
void survive(Fault fault, int64_t call, bool& reached) {
  TempFolder folder;
  ASSERT_TRUE(save_test_model(*real_disk(), folder.path(), 10, 1, 2, 1));
  FaultyDisk disk(fault, call);
  bool is_published = false;
  try {
    const auto published = save_test_model(disk, folder.path(), 20, 1, 2, 1);
    is_published = published.has_value();
    reached = disk.num_calls() > call;
    if (!is_published) {
      EXPECT_THAT(published.error().message, HasSubstr("injected"));
    }
  } catch (const Crash&) {
    reached = true;
  }

  const auto opened = open_newest(folder.path());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->skipped.empty());
  const int64_t step = opened->reader.manifest().step;
  EXPECT_TRUE(step == 20 || (step == 10 && !is_published)) << step;
  const auto verified = verify_test_model(opened->reader, 3);
  EXPECT_TRUE(verified) << verified.error().message;

  const auto next = save_test_model(*real_disk(), folder.path(), step + 10, 2, 3, 1);
  ASSERT_TRUE(next) << next.error().message;
  int64_t num_entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    ++num_entries;
  }
  EXPECT_EQ(num_entries, 1);
}

class CrashSafetyTest : public ::testing::TestWithParam<Fault> {};

TEST_P(CrashSafetyTest, EveryCallMayFailOrBeTheLast) {
  bool reached = true;
  int64_t call = 0;
  for (; reached; call += kSweepStride) {
    SCOPED_TRACE("call " + std::to_string(call));
    reached = false;
    survive(GetParam(), call, reached);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(call, 30);  // a save of two ranks takes more calls than that
}

INSTANTIATE_TEST_SUITE_P(Faults, CrashSafetyTest,
                         ::testing::Values(Fault::kFailOnce, Fault::kFailForever,
                                           Fault::kCrashBefore, Fault::kCrashAfter));

}  // namespace
}  // namespace lockstep::runtime
