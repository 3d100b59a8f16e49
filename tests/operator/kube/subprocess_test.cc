#include "operator/kube/subprocess.h"

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using std::chrono::seconds;

SubprocessEnd run(const std::string& script, seconds timeout = seconds(60)) {
  return run_subprocess({{"sh", "-c", script}, {{"NAME", "value"}}, timeout}).value();
}

TEST(SubprocessTest, GivesBothOutputsAndTheEnvironment) {
  const SubprocessEnd end = run("printf %s \"$NAME\"; echo problem >&2; cat");
  EXPECT_EQ(end.output, "value") << "and its input is empty";
  EXPECT_EQ(end.errors, "problem\n");
  EXPECT_EQ(end.how, "");
}

TEST(SubprocessTest, SaysHowItEnded) {
  EXPECT_EQ(run("exit 3").how, "exited with 3");
  EXPECT_EQ(run("kill -9 $$").how, "was ended by signal 9");
  EXPECT_EQ(run("exec >&- 2>&-; sleep 0.05; exit 4").how, "exited with 4")
      << "also if it closes its outputs first";
}

TEST(SubprocessTest, WhoTakesTooLongOrSaysTooMuchIsKilledWithItsChildren) {
  EXPECT_EQ(run("sleep 600 & sleep 600", seconds(1)).how, "did not end within 1 s");
  EXPECT_EQ(run("exec >&- 2>&-; sleep 600", seconds(1)).how, "did not end within 1 s");
  EXPECT_EQ(run("while :; do echo 0123456789012345678901234567890123456789; done").how,
            "said too much");
}

TEST(SubprocessTest, AStopEndsItWithItsChildren) {
  for (const char* script : {"sleep 600 & sleep 600", "exec >&- 2>&-; sleep 600"}) {
    std::stop_source source;
    const std::jthread stopper([&source] { source.request_stop(); });
    const auto end = run_subprocess({{"sh", "-c", script}, {}, seconds(600)}, source.get_token());
    EXPECT_EQ(end->how, "was stopped") << script;
  }
}

TEST(SubprocessTest, WhatEndedBeforeTheStopHasItsOwnEnd) {
  const std::stop_source source;
  EXPECT_EQ(run_subprocess({{"sh", "-c", "exit 3"}, {}, seconds(60)}, source.get_token())->how,
            "exited with 3");
}

TEST(SubprocessTest, WhatCannotBeStartedIsAnError) {
  const auto absent = run_subprocess({{"/no/such/program"}, {}, seconds(60)});
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::kube
