#include "operator/cli/machine_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(MachineInputTest, AProgramIsKnownByWhatItTells) {
  const machine::ProgramFacts runtime =
      parse_program("/bin/rt", "lockstep-runtime 0.1.0, LibTorch 2.11.0\n");
  EXPECT_EQ(runtime.version, "0.1.0");
  EXPECT_EQ(runtime.told, "lockstep-runtime 0.1.0, LibTorch 2.11.0");
  EXPECT_EQ(runtime.trouble, "");
  EXPECT_EQ(parse_program("/bin/rt", "lockstep-runtime 0.1.0").version, "0.1.0");
}

TEST(MachineInputTest, AnotherProgramIsNoRuntime) {
  const machine::ProgramFacts other = parse_program("/bin/ls", "ls (GNU coreutils) 9.1");
  EXPECT_THAT(other.trouble, HasSubstr("'ls (GNU coreutils) 9.1'"));
  EXPECT_NE(parse_program("/bin/rt", "").trouble, "");
}

}  // namespace
}  // namespace lockstep::cli
