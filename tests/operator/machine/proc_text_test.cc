#include "operator/machine/proc_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProcTextTest, ModelAndInstructionSetsOfTheFirstProcessor) {
  const CpuFacts cpu = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: Some CPU @ 2.40GHz\nflags\t\t: fpu avx avx2 fma f16c "
      "hypervisor\n"
      "\nprocessor\t: 1\nmodel name\t: Another\nflags\t\t: fpu avx512f\n");
  EXPECT_EQ(cpu.model, "Some CPU @ 2.40GHz");
  EXPECT_THAT(cpu.instruction_sets, ElementsAre("avx", "fma", "f16c", "avx2"));
}

TEST(ProcTextTest, AProcessorWithoutFlagsHasNoSets) {
  const CpuFacts cpu = parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd\n");
  EXPECT_EQ(cpu.model, "");
  EXPECT_THAT(cpu.instruction_sets, IsEmpty());
}

TEST(ProcTextTest, CountsTheNumbersOfAList) {
  EXPECT_EQ(count_list("0\n"), 1);
  EXPECT_EQ(count_list("0-3,8,10-11\n"), 7);
  EXPECT_EQ(count_list(""), 0);
  EXPECT_EQ(count_list("none\n"), 0);
}

TEST(ProcTextTest, MemoryIsInBytes) {
  const MemoryFacts expected{.total_bytes = 2048 * 1024, .available_bytes = 1024 * 1024};
  EXPECT_EQ(parse_meminfo("MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n"),
            expected);
  EXPECT_EQ(parse_meminfo("nonsense"), MemoryFacts{});
}

TEST(ProcTextTest, NamesOfSystemsAndVersionsOfDrivers) {
  EXPECT_EQ(parse_os_release("NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(parse_os_release(""), "");
  EXPECT_EQ(parse_nvidia_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat "
                                 "Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0\n"),
            "535.104.05");
  EXPECT_EQ(
      parse_nvidia_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  "
                           "Release Build\n"),
      "570.86.15");
  EXPECT_EQ(parse_nvidia_version(""), "");
}

}  // namespace
}  // namespace lockstep::machine
