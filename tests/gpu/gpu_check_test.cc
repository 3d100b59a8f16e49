// The program of the CUDA build starts without a GPU, and says what is missing.
#include <algorithm>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "runtime/common/exit_code.h"
#include "tests/support/paths.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

struct Ended {
  int exit_code = -1;
  std::string said;  // on both outputs
};

Ended run_gpu_check(const std::string& environment, const std::string& arguments) {
  const std::string command = environment + " " + support::kGpuCheck + " " + arguments + " 2>&1";
  Ended ended;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  char part[512];
  while (std::fgets(part, sizeof(part), pipe) != nullptr) ended.said += part;
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

int64_t num_lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(GpuCheckTest, SaysInOneLineThatThereIsNoDriverAndWhatToDo) {
  const Ended ended = run_gpu_check("", "--driver libno-such-driver.so");
  EXPECT_EQ(ended.exit_code, static_cast<int>(ExitCode::kNoDevice));
  EXPECT_EQ(num_lines(ended.said), 1) << ended.said;
  EXPECT_THAT(ended.said, StartsWith("lockstep-gpu-check: no CUDA device was found: no NVIDIA"));
  EXPECT_THAT(ended.said, HasSubstr("driver 580 or newer"));
}

TEST(GpuCheckTest, SaysWhichCudaAnOldDriverSupports) {
  const Ended ended =
      run_gpu_check("FAKE_CUDA_VERSION=12080", std::string("--driver ") + support::kFakeCudaDriver);
  EXPECT_EQ(ended.exit_code, static_cast<int>(ExitCode::kNoDevice));
  EXPECT_EQ(num_lines(ended.said), 1) << ended.said;
  EXPECT_THAT(ended.said, HasSubstr("supports CUDA 12.8, and this build needs 13.0"));
}

TEST(GpuCheckTest, ListsTheDevicesAndRefusesOneThatIsTooOldOrAbsent) {
  const std::string driver = std::string(" --driver ") + support::kFakeCudaDriver;
  const Ended old = run_gpu_check("FAKE_CUDA_DEVICES=2", "--device 1" + driver);
  EXPECT_EQ(old.exit_code, static_cast<int>(ExitCode::kNoDevice));
  EXPECT_THAT(old.said, HasSubstr("device 0: Fake 0, compute capability 9.0"));
  EXPECT_THAT(old.said, HasSubstr("device 1, Fake 1, has compute capability 7.5"));
  const Ended absent = run_gpu_check("FAKE_CUDA_DEVICES=2", "--device 2" + driver);
  EXPECT_EQ(absent.exit_code, static_cast<int>(ExitCode::kNoDevice));
  EXPECT_THAT(absent.said, HasSubstr("local rank 2 has none, there are 2"));
}

// With the machine's own driver, if it has one: either its kernels are right, or there is no GPU.
TEST(GpuCheckTest, OnThisMachineFindsItsKernelsRightOrNoDevice) {
  const Ended ended = run_gpu_check("", "");
  EXPECT_THAT(ended.exit_code,
              AnyOf(static_cast<int>(ExitCode::kSucceeded), static_cast<int>(ExitCode::kNoDevice)))
      << ended.said;
}

}  // namespace
}  // namespace lockstep::runtime
