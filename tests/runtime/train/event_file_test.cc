#include "runtime/train/event_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"
#include "tests/support/event_reader.h"

namespace lockstep::runtime {
namespace {

using support::Event;
using support::read_events;

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(byte) & 0xf]);
  }
  return text;
}

// What tensorboard 2.21.0 writes for the same events (RecordWriter and event_pb2).
TEST(EventFileTest, RecordsAreTheBytesOfTensorBoard) {
  EXPECT_EQ(hex(frame_record(encode_file_version(1234.5))),
            "1800000000000000a37f4b220900000000004a93401a0d627261696e2e4576656e743a3265b8d3fb");
  EXPECT_EQ(hex(frame_record(encode_session_start(1234.5, 301))),
            "100000000000000095fbfe180900000000004a934010ad023a020801c02893a5");
  const std::vector<Scalar> scalars = {{"train/loss", 2.5}, {"lr", 3e-4}};
  EXPECT_EQ(
      hex(frame_record(encode_scalars(1234.5, 7, scalars))),
      "2b00000000000000861bc34b0900000000004a934010072a1e0a110a0a747261696e2f6c6f7373150000204"
      "00a090a026c721552499d39c81af145");
}

TEST(EventFileTest, AnIndependentReaderFindsVersionSessionAndScalars) {
  const TempFolder folder;
  auto file = EventFile::create({.output = folder.path(), .attempt = 3, .first_step = 5});
  ASSERT_TRUE(file) << file.error().message;
  for (const int64_t step : {5, 10, 300}) {
    const std::vector<Scalar> scalars = {{"train/loss", 1.0 / static_cast<double>(step)},
                                         {"time/step", 0.25}};
    ASSERT_TRUE(file->append(step, scalars));
  }
  const std::vector<Event> events = read_events(folder.path() + "/tensorboard");
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_TRUE(events[1].is_session_start);
  EXPECT_EQ(events[1].step, 5);
  EXPECT_EQ(events[4].step, 300);
  EXPECT_EQ(events[4].scalars.at("train/loss"), static_cast<float>(1.0 / 300));
  EXPECT_EQ(events[4].scalars.at("time/step"), 0.25F);
  EXPECT_GT(events[4].wall_seconds, 1.7e9) << "seconds since 1970";
}

TEST(EventFileTest, FilesOfLaterAttemptsSortBehind) {
  const TempFolder folder;
  for (const int64_t attempt : {0, 1, 2, 10}) {
    ASSERT_TRUE(EventFile::create({.output = folder.path(), .attempt = attempt}));
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/tensorboard")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  ASSERT_EQ(names.size(), 4U);
  EXPECT_TRUE(names[0].starts_with("events.out.tfevents.")) << names[0];
  EXPECT_TRUE(names[0].ends_with(".lockstep.000000")) << names[0];
  EXPECT_TRUE(names[3].ends_with(".lockstep.000010")) << names[3];
}

TEST(EventFileTest, AFolderThatCannotBeMadeIsNamed) {
  const auto file = EventFile::create({.output = "/proc/no-such-folder"});
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("/proc/no-such-folder/tensorboard"), std::string::npos)
      << file.error().message;
}

}  // namespace
}  // namespace lockstep::runtime
