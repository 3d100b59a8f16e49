#include "runtime/train/checkpoint_saver.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/train/run_error.h"
#include "runtime/train/train_step.h"
#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/checkpoint/test_model.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;
using testing::HasSubstr;

constexpr int kRanks = 2;

// The real disk, on which opening a file waits while the gate is shut.
class GatedDisk final : public Disk {
 public:
  void shut() { set(false); }
  void open_gate() { set(true); }

  Result<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
    return real_->open(path, mode);
  }
  Result<void> write_at(DiskFile& file, int64_t offset, std::span<const std::byte> bytes) override {
    return real_->write_at(file, offset, bytes);
  }
  Result<void> sync_file(DiskFile& file) override { return real_->sync_file(file); }
  Result<void> sync_folder(const std::string& path) override { return real_->sync_folder(path); }
  Result<void> make_folder(const std::string& path) override { return real_->make_folder(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return real_->rename(from, to);
  }
  Result<void> remove_tree(const std::string& path) override { return real_->remove_tree(path); }

 private:
  void set(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }

  std::unique_ptr<Disk> real_ = real_disk();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;  // guarded by mutex_
};

// One rank of a world of threads, with all that a saver needs.
struct Rank {
  Rank(Collective& world, Disk& disk, const std::string& output, bool async)
      : collective(world),
        state(world.rank(), kRanks),
        board("tiny", 1, world.rank()),
        saver({.output = output,
               .run = *prepared_run(output),
               .async = async,
               .keep = 1,
               .manifest = test_manifest(0, 1, kRanks)},
              state.slices(), world, disk, common::Log(), board) {}

  void begin(int64_t step) {
    state.set_step(step);
    saver.begin({.step = step, .samples_consumed = step * 8}, state.slices());
    state.set_step(step + 1);  // training goes on
  }
  // What a step does for a save.
  void step() { saver.advance(exchange_control(collective, {.save = saver.progress()}).saves); }
  std::string metrics() { return board.routes().at("/metrics")().body; }

  Collective& collective;
  TestState state;
  StatusBoard board;
  CheckpointSaver saver;
};

class CheckpointSaverTest : public testing::Test {
 protected:
  void expect_newest(int64_t step) const {
    const auto opened = open_newest(folder_.path());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->reader.manifest().step, step);
    const auto verified = verify_test_model(opened->reader, 3);
    EXPECT_TRUE(verified) << verified.error().message;
  }
  bool is_published(int64_t step) const {
    return std::filesystem::exists(folder_ / ("checkpoints/step-" + std::to_string(step)));
  }
  void run(Disk& disk, bool async, const std::function<void(Rank&)>& body) const {
    const auto world = make_local_world(kRanks);
    run_ranks(kRanks, [&](int number) {
      Rank rank(*world[static_cast<std::size_t>(number)], disk, folder_.path(), async);
      body(rank);
    });
  }

  TempFolder folder_;
};

TEST_F(CheckpointSaverTest, TrainingGoesOnWhileTheCheckpointIsWritten) {
  GatedDisk disk;
  disk.shut();
  run(disk, true, [&](Rank& rank) {
    EXPECT_EQ(rank.saver.progress(), SaveProgress::kNone);
    rank.begin(10);
    for (int i = 0; i < 5; ++i) rank.step();
    EXPECT_EQ(rank.saver.progress(), SaveProgress::kBusy);
    EXPECT_FALSE(is_published(10));
    EXPECT_EQ(rank.board.progress().last_checkpoint_step, std::nullopt);
    if (rank.collective.rank() == 0) disk.open_gate();
    while (rank.saver.progress() != SaveProgress::kNone) rank.step();
    EXPECT_TRUE(is_published(10));
    EXPECT_EQ(rank.board.progress().last_checkpoint_step, 10);
  });
  expect_newest(10);  // the values of step 10, though training changed them since
}

TEST_F(CheckpointSaverTest, TheNextSaveWaitsForTheOneBeforeAndSaysSo) {
  const std::unique_ptr<Disk> disk = real_disk();
  run(*disk, true, [&](Rank& rank) {
    rank.begin(10);
    rank.begin(20);
    EXPECT_TRUE(is_published(10));
    EXPECT_THAT(rank.metrics(), HasSubstr("lockstep_checkpoint_waits_total{rank=\"" +
                                          std::to_string(rank.collective.rank()) + "\"} 1"));
    rank.saver.finish();
  });
  expect_newest(20);
}

TEST_F(CheckpointSaverTest, ABlockingSaveIsPublishedWhenBeginReturnsAndTakesNoMemory) {
  const std::unique_ptr<Disk> disk = real_disk();
  run(*disk, false, [&](Rank& rank) {
    EXPECT_EQ(rank.saver.snapshot_bytes(), 0);
    rank.begin(10);
    EXPECT_EQ(rank.saver.progress(), SaveProgress::kNone);
    EXPECT_TRUE(is_published(10));
  });
  expect_newest(10);
}

TEST_F(CheckpointSaverTest, ARankThatIsStillWritingGivesUpWhenAnotherHasFailed) {
  GatedDisk slow;
  slow.shut();
  FaultyDisk full(Fault::kFailForever, 0);
  const auto world = make_local_world(kRanks);
  run_ranks(kRanks, [&](int number) {
    Disk& disk = number == 0 ? static_cast<Disk&>(slow) : full;
    Rank rank(*world[static_cast<std::size_t>(number)], disk, folder_.path(), true);
    rank.begin(10);
    const auto train = [&] {
      while (true) rank.step();
    };
    if (number == 1) {
      EXPECT_THROW(train(), RunError);
    } else {
      EXPECT_THROW(train(), PeerLostError);
      slow.open_gate();
    }
  });
}

// Ends as a rank's process would: what it threw, as an exit code.
ExitCode outcome_of(const std::function<void()>& body) {
  try {
    body();
    return ExitCode::kSucceeded;
  } catch (const Crash&) {
    return ExitCode::kInternal;
  } catch (...) {
    return verdict_of(std::current_exception()).code;
  }
}

// Step 10 is there; step 20 is being saved when call `call` of rank `faulty`'s disk fails or is its
// last. Returns false if there are fewer calls.
bool survive(Fault fault, int faulty, int64_t call) {
  TempFolder folder;
  EXPECT_TRUE(save_test_model(*real_disk(), folder.path(), 10, 1, kRanks, 1));
  FaultyDisk disk(fault, call);
  const std::unique_ptr<Disk> sound = real_disk();
  std::map<int, ExitCode> outcomes;
  std::mutex mutex;
  {
    auto world = make_local_world(kRanks);
    run_ranks(kRanks, [&](int number) {
      std::unique_ptr<Collective>& own = world[static_cast<std::size_t>(number)];
      const ExitCode outcome = outcome_of([&] {
        Disk& mine = number == faulty ? static_cast<Disk&>(disk) : *sound;
        Rank rank(*own, mine, folder.path(), true);
        rank.begin(20);
        while (rank.saver.progress() != SaveProgress::kNone) rank.step();
      });
      own.reset();  // peers see that it has left
      const std::lock_guard lock(mutex);
      outcomes[number] = outcome;
    });
  }
  const bool reached = disk.num_calls() > call || outcomes[faulty] == ExitCode::kInternal;
  const bool is_published = outcomes[faulty] == ExitCode::kSucceeded;
  const bool crashes = fault == Fault::kCrashBefore || fault == Fault::kCrashAfter;
  if (is_published) {
    EXPECT_EQ(outcomes[1 - faulty], ExitCode::kSucceeded);
  } else {
    EXPECT_EQ(outcomes[faulty], crashes ? ExitCode::kInternal : ExitCode::kOutputUnwritable);
    EXPECT_EQ(outcomes[1 - faulty], ExitCode::kPeerLost);
  }
  const auto opened = open_newest(folder.path());
  EXPECT_TRUE(opened) << opened.error().message;
  if (!opened) return false;
  EXPECT_TRUE(opened->skipped.empty());
  const int64_t step = opened->reader.manifest().step;
  EXPECT_TRUE(step == 20 || (step == 10 && !is_published)) << step;
  const auto verified = verify_test_model(opened->reader, 3);
  EXPECT_TRUE(verified) << verified.error().message;
  return reached;
}

class SaverCrashSafetyTest : public testing::TestWithParam<std::tuple<Fault, int>> {};

TEST_P(SaverCrashSafetyTest, EveryDiskCallOfARankMayFailOrBeTheLast) {
  int64_t call = 0;
  for (bool reached = true; reached && !HasFailure(); call += kSweepStride) {
    SCOPED_TRACE("call " + std::to_string(call));
    reached = survive(std::get<0>(GetParam()), std::get<1>(GetParam()), call);
  }
  EXPECT_GT(call, 10);
}

INSTANTIATE_TEST_SUITE_P(Faults, SaverCrashSafetyTest,
                         testing::Combine(testing::Values(Fault::kFailOnce, Fault::kFailForever,
                                                          Fault::kCrashBefore, Fault::kCrashAfter),
                                          testing::Values(0, 1)));

}  // namespace
}  // namespace lockstep::runtime
