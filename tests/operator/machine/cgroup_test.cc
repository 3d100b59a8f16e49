#include "operator/machine/cgroup.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::machine {
namespace {

ReadFile files(std::map<std::string, std::string> texts) {
  return [texts = std::move(texts)](const std::string& path) -> std::optional<std::string> {
    const auto found = texts.find(path);
    if (found == texts.end()) return std::nullopt;
    return found->second;
  };
}

constexpr int64_t kGi = int64_t{1} << 30;

TEST(CgroupTest, TheNarrowestLimitOnTheWayToTheRootCounts) {
  const CgroupFacts expected{.version = 2, .cpus = 1.5, .memory_bytes = 2 * kGi};
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "0::/outer/inner\n"},
                               {"/sys/fs/cgroup/outer/inner/memory.max", "max\n"},
                               {"/sys/fs/cgroup/outer/inner/cpu.max", "300000 100000\n"},
                               {"/sys/fs/cgroup/outer/memory.max", "2147483648\n"},
                               {"/sys/fs/cgroup/outer/cpu.max", "150000 100000\n"}})),
            expected);
}

TEST(CgroupTest, AContainerSeesItsOwnGroupAsTheRoot) {
  const CgroupFacts expected{.version = 2, .cpus = 0.5, .memory_bytes = kGi};
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "0::/\n"},
                               {"/sys/fs/cgroup/memory.max", "1073741824\n"},
                               {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}})),
            expected);
  // The path of the host, where only the container's own folder is mounted.
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "0::/kubepods/pod1/c1\n"},
                               {"/sys/fs/cgroup/memory.max", "1073741824\n"},
                               {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}})),
            expected);
}

TEST(CgroupTest, Version1HasAFolderForEachController) {
  const std::string groups = "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/elsewhere\n";
  const CgroupFacts expected{.version = 1, .cpus = 2.0, .memory_bytes = kGi};
  EXPECT_EQ(read_cgroup(
                files({{"/proc/self/cgroup", groups},
                       {"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
                       {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n"},
                       {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n"},
                       {"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
                       {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                       {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})),
            expected);
}

TEST(CgroupTest, WhatIsLeftIsThatOfTheFullestGroupLessWhatTheKernelCanDrop) {
  const CgroupFacts second = {
      .version = 2, .cpus = std::nullopt, .memory_bytes = 2 * kGi, .memory_free_bytes = kGi + 4096};
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "0::/outer/inner\n"},
                               {"/sys/fs/cgroup/outer/inner/memory.max", "2147483648\n"},
                               {"/sys/fs/cgroup/outer/inner/memory.current", "4096\n"},
                               {"/sys/fs/cgroup/outer/memory.max", "4294967296\n"},
                               {"/sys/fs/cgroup/outer/memory.current", "3221229568\n"},
                               {"/sys/fs/cgroup/outer/memory.stat",
                                "anon 3221225472\ninactive_file 8192\nactive_file 0\n"}})),
            second);
  const CgroupFacts first = {
      .version = 1, .cpus = std::nullopt, .memory_bytes = kGi, .memory_free_bytes = 0};
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "4:memory:/a\n"},
                               {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n"},
                               {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073745920\n"},
                               {"/sys/fs/cgroup/memory/a/memory.stat",
                                "inactive_file 9000\ntotal_inactive_file 4096\n"}})),
            first);
}

TEST(CgroupTest, WithoutGroupsOrLimitsThereAreNone) {
  EXPECT_EQ(read_cgroup(files({})), CgroupFacts{});
  const CgroupFacts unlimited{.version = 2, .cpus = std::nullopt, .memory_bytes = std::nullopt};
  EXPECT_EQ(read_cgroup(files({{"/proc/self/cgroup", "0::/\n"},
                               {"/sys/fs/cgroup/memory.max", "max\n"},
                               {"/sys/fs/cgroup/cpu.max", "max 100000\n"}})),
            unlimited);
}

}  // namespace
}  // namespace lockstep::machine
