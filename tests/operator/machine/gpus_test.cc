#include "operator/machine/gpus.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace lockstep::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ReadFile driver_file(const std::string& text) {
  return [text](const std::string& path) -> std::optional<std::string> {
    if (path != "/proc/driver/nvidia/version" || text.empty()) return std::nullopt;
    return text;
  };
}
constexpr const char* kDriver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat\n";

TEST(GpusTest, TheDriversLibraryTellsOfEveryGpu) {
  const GpuFacts facts = read_gpus(support::kFakeNvml, driver_file(""));
  EXPECT_EQ(facts.driver, "999.1");
  EXPECT_EQ(facts.where_asked, "NVML");
  EXPECT_EQ(facts.trouble, "");
  EXPECT_THAT(
      facts.gpus,
      ElementsAre(Gpu{.name = "Fake GPU", .memory_bytes = int64_t{16} << 30, .capability = 90},
                  Gpu{.name = "without a name"}));
  EXPECT_THAT(facts.links, ElementsAre(GpuLink{.first = 0, .second = 1, .kind = "PHB"}));
}

TEST(GpusTest, NvlinkGoesBeforeWhatPciHasInCommon) {
  ASSERT_EQ(setenv("FAKE_NVLINK", "1", /*overwrite=*/1), 0);
  const GpuFacts facts = read_gpus(support::kFakeNvml, driver_file(""));
  ASSERT_EQ(unsetenv("FAKE_NVLINK"), 0);
  EXPECT_THAT(facts.links, ElementsAre(GpuLink{.first = 0, .second = 1, .kind = "NVLink"}));
}

TEST(NcclTest, TellsTheVersionOfTheLibraryThatIsFound) {
  EXPECT_EQ(read_nccl(support::kFakeNccl).version, "2.27.5");
  const NcclFacts absent = read_nccl("libno-such-thing.so.1");
  EXPECT_EQ(absent.version + absent.trouble, "");
  EXPECT_THAT(read_nccl("libc.so.6").trouble, HasSubstr("libc.so.6 does not tell its version"));
}

TEST(NcclTest, VersionsHadOneDigitLess) {
  EXPECT_EQ(nccl_version_text(2804), "2.8.4");
  EXPECT_EQ(nccl_version_text(20900), "2.9.0");
  EXPECT_EQ(nccl_version_text(22705), "2.27.5");
}

TEST(GpusTest, WithoutLibraryAndDriverThereIsNone) {
  const GpuFacts facts = read_gpus("libno-such-thing.so.1", driver_file(""));
  EXPECT_THAT(facts.gpus, IsEmpty());
  EXPECT_EQ(facts.driver, "");
  EXPECT_EQ(facts.trouble, "");
}

TEST(GpusTest, ADriverThatCannotBeAskedIsTrouble) {
  const GpuFacts facts = read_gpus("libno-such-thing.so.1", driver_file(kDriver));
  EXPECT_EQ(facts.driver, "535.104.05");
  EXPECT_THAT(facts.trouble, HasSubstr("libno-such-thing.so.1 is not here"));
  // A library, but of something else.
  EXPECT_THAT(read_gpus("libc.so.6", driver_file(kDriver)).trouble, HasSubstr("lacks functions"));
  EXPECT_EQ(read_gpus("libc.so.6", driver_file("")).trouble, "");
}

}  // namespace
}  // namespace lockstep::machine
