// Data that no memory holds is shuffled whole, sample by sample: a sample's place is computed, and
// what it holds is read through a map.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/data/corpus.h"
#include "runtime/data/sample_source.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kLength = 4096;

// The number in the line of `file` that begins with `key`, in bytes.
int64_t kibibytes_in(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  }
  ADD_FAILURE() << file << " has no " << key;
  return 0;
}

// Memory of this process that is no file's: pages of maps, which may go at any time, do not count.
int64_t own_memory() {
  return kibibytes_in("/proc/self/status", "RssAnon:");
}

TEST(LargeDataTest, AFileLargerThanMemoryIsShuffledWholeWithoutABuffer) {
  const TempFolder folder;
  const std::string path = folder / "large.txt";
  const int64_t num_bytes =  // of whole samples, and the last label
      2 * kibibytes_in("/proc/meminfo", "MemTotal:") / kLength * kLength + 1;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, num_bytes), 0);  // a hole: it takes no disk

  const int64_t before = own_memory();
  auto corpus = Corpus::open({path});
  ASSERT_TRUE(corpus) << corpus.error().message;
  auto samples = Samples::create(std::make_unique<Corpus>(std::move(corpus).value()),
                                 {.sequence_length = kLength});
  const auto source = SampleSource::create(
      std::move(samples).value(), {.global_batch_size = 8, .micro_batch_size = 8, .seed = 3});
  ASSERT_TRUE(source);
  ASSERT_EQ(source->samples_per_epoch(), num_bytes / kLength);

  constexpr int64_t kSteps = 64;
  std::set<int64_t> seen, tenths;
  MicroBatch batch;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < 8; ++i) {  // what lies there is what is read
      const int64_t sample = source->sample_of(step, i);
      seen.insert(sample);
      tenths.insert(sample * 10 / source->samples_per_epoch());
      const std::string mark = std::to_string(sample);
      ASSERT_EQ(::pwrite(file, mark.data(), mark.size(), sample * kLength),
                static_cast<ssize_t>(mark.size()));
    }
    ASSERT_TRUE(source->fill(step, 0, batch));
    for (std::size_t i = 0; i < 8; ++i) {
      const std::string mark = std::to_string(batch.samples[i]);
      EXPECT_TRUE(std::equal(mark.begin(), mark.end(), batch.tokens.begin() + i * kLength));
    }
  }
  ::close(file);
  EXPECT_EQ(seen.size(), std::size_t{8 * kSteps});
  EXPECT_EQ(tenths.size(), 10U) << "the first steps draw from all of the file";
  if (kIsInstrumented) return;  // a sanitizer has memory of its own
  EXPECT_LT(own_memory() - before, 64 * kMebibyte);
}

}  // namespace
}  // namespace lockstep::runtime
