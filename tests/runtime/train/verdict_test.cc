#include <filesystem>
#include <fstream>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"
#include "runtime/offload/swap_file.h"
#include "runtime/train/run_error.h"
#include "runtime/train/termination.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;

template <typename T>
ExitCode code_of(const T& error) {
  const RunFailure failure = verdict_of(std::make_exception_ptr(error));
  EXPECT_FALSE(failure.message.empty());
  EXPECT_FALSE(failure.hint.empty());
  return failure.code;
}

TEST(VerdictTest, EveryExceptionHasItsExitCode) {
  EXPECT_EQ(code_of(PeerLostError("p")), ExitCode::kPeerLost);
  EXPECT_EQ(code_of(CollectiveTimeoutError("c")), ExitCode::kCollectiveTimeout);
  EXPECT_EQ(code_of(RendezvousTimeoutError("r")), ExitCode::kRendezvousTimeout);
  EXPECT_EQ(code_of(PortInUseError("u")), ExitCode::kPortInUse);
  EXPECT_EQ(code_of(BackendUnavailableError("b")), ExitCode::kInvalidConfig);
  EXPECT_EQ(code_of(InterfaceNotFoundError("i")), ExitCode::kInvalidConfig);
  EXPECT_THAT(verdict_of(std::make_exception_ptr(BackendLibraryError("l"))).hint,
              testing::HasSubstr("install the library"));
  EXPECT_NE(verdict_of(std::make_exception_ptr(InterfaceNotFoundError("i"))).hint,
            verdict_of(std::make_exception_ptr(BackendUnavailableError("b"))).hint);
  EXPECT_EQ(code_of(OffloadError({common::ErrorCode::kUnavailable, "full", ""})),
            ExitCode::kOutputUnwritable);
  EXPECT_EQ(code_of(std::bad_alloc()), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of(std::runtime_error("x")), ExitCode::kInternal);
  EXPECT_EQ(code_of(7), ExitCode::kInternal);
  EXPECT_EQ(code_of(RunError({ExitCode::kNonFinite, "nan", "lower lr"})), ExitCode::kNonFinite);
}

TEST(TerminationTest, WritesTheMessageWhereItIsReadAndSkipsItElsewhere) {
  const std::string path = testing::TempDir() + "lockstep-termination-" + std::to_string(getpid());
  const RunFailure failure{ExitCode::kInvalidData, "empty corpus", "add text"};
  report_failure({.rank = 2, .termination_path = path}, common::Log(), 5, failure);
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const auto message = common::decode_termination_message(line);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->rank, 2);
  EXPECT_EQ(message->step, 5);
  EXPECT_EQ(message->reason, "InvalidData");
  EXPECT_EQ(message->hint, "add text");
  std::filesystem::remove(path);

  report_failure({.termination_path = path + "-missing/message"}, common::Log(), 0, failure);
  EXPECT_FALSE(std::filesystem::exists(path + "-missing"));
}

}  // namespace
}  // namespace lockstep::runtime
