#include "runtime/kernels/cuda/cuda_driver.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/support/paths.h"

namespace lockstep::runtime {
namespace {

using common::Result;
using testing::HasSubstr;
using testing::StartsWith;

const CudaDevice kH100 = {.name = "H100", .major = 9, .minor = 0, .memory_bytes = 80};
const CudaDevice kT4 = {.name = "T4", .major = 7, .minor = 5, .memory_bytes = 16};

DriverFacts good_driver() {
  return {.version = kNeededCuda, .devices = {kH100, kT4}};
}

TEST(UsableDevicesTest, AreThoseOfADriverThatIsNewEnough) {
  const Result<std::vector<CudaDevice>> devices = usable_devices(good_driver());
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->size(), 2u);
}

TEST(UsableDevicesTest, WithoutOneTheErrorSaysWhyAndWhatToDo) {
  const struct {
    DriverFacts facts;
    const char* why;
    const char* hint;
  } table[] = {
      {{.load_error = "libcuda.so.1: cannot open"},
       "no NVIDIA driver (libcuda.so.1: cannot",
       "580"},
      {{.version = 12040, .devices = {kH100}},
       "supports CUDA 12.4, and this build needs 13.0",
       "update the driver to 580"},
      // An old driver may refuse because it is old.
      {{.version = 12020, .init_status = 803}, "supports CUDA 12.2", "update the driver"},
      {{.version = 13010, .init_status = 999, .init_words = "unknown error"},
       "does not start: error 999 (unknown error)",
       "nvidia-smi"},
      {{.version = 13000, .init_status = 100, .init_words = "no device"},
       "shows none",
       "CUDA_VISIBLE_DEVICES"},
      {{.version = 13000}, "shows none", "resources.limits"},
  };
  for (const auto& row : table) {
    const Result<std::vector<CudaDevice>> devices = usable_devices(row.facts);
    ASSERT_FALSE(devices) << row.why;
    EXPECT_THAT(devices.error().message, StartsWith("no CUDA device was found: "));
    EXPECT_THAT(devices.error().message, HasSubstr(row.why));
    EXPECT_THAT(devices.error().hint, HasSubstr(row.hint));
  }
}

TEST(DeviceOfRankTest, IsTheOneAtItsPlaceIfThereIsCodeForIt) {
  const std::vector<CudaDevice> devices = {kH100, kT4};
  EXPECT_EQ(device_of_rank(devices, 0)->name, "H100");
  const Result<CudaDevice> old = device_of_rank(devices, 1);
  ASSERT_FALSE(old);
  EXPECT_THAT(old.error().message, HasSubstr("device 1, T4, has compute capability 7.5"));
  for (const int rank : {2, -1}) {
    const Result<CudaDevice> absent = device_of_rank(devices, rank);
    ASSERT_FALSE(absent);
    EXPECT_THAT(absent.error().message, HasSubstr("has none, there are 2"));
  }
}

class AskedDriverTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"FAKE_CUDA_VERSION", "FAKE_CUDA_INIT", "FAKE_CUDA_DEVICES"}) {
      unsetenv(name);
    }
  }
};

TEST_F(AskedDriverTest, TellsItsVersionAndItsDevices) {
  setenv("FAKE_CUDA_VERSION", "13020", 1);
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  const DriverFacts facts = ask_cuda_driver(support::kFakeCudaDriver);
  EXPECT_EQ(facts.load_error, "");
  EXPECT_EQ(facts.version, 13020);
  ASSERT_EQ(facts.devices.size(), 2u);
  EXPECT_EQ(facts.devices[1].name, "Fake 1");
  EXPECT_EQ(facts.devices[1].major, 7);
  EXPECT_EQ(facts.devices[1].minor, 5);
  EXPECT_EQ(facts.devices[1].memory_bytes, 2048);
}

TEST_F(AskedDriverTest, IsNotAskedForDevicesWhereItDoesNotStart) {
  setenv("FAKE_CUDA_INIT", "100", 1);
  const DriverFacts facts = ask_cuda_driver(support::kFakeCudaDriver);
  EXPECT_EQ(facts.init_status, 100);
  EXPECT_EQ(facts.init_words, "no CUDA-capable device is detected");
  EXPECT_TRUE(facts.devices.empty());
}

TEST_F(AskedDriverTest, SaysOfALibraryThatIsNoDriverWhy) {
  EXPECT_THAT(ask_cuda_driver("libno-such-driver.so").load_error, HasSubstr("cannot open"));
  EXPECT_THAT(ask_cuda_driver("libm.so.6").load_error, HasSubstr("lacks functions"));
}

}  // namespace
}  // namespace lockstep::runtime
