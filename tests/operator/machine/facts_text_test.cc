#include "operator/machine/facts_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::machine {
namespace {

using ::testing::HasSubstr;

MachineFacts some_machine() {
  MachineFacts facts;
  facts.lockstep_version = "1.2.3";
  facts.runtime = {
      .path = "/bin/rt", .version = "1.2.3", .told = "lockstep-runtime 1.2.3", .trouble = ""};
  facts.system = "Some System";
  facts.kernel = "Linux 6.1";
  facts.cpu = {.model = "A CPU",
               .architecture = "x86_64",
               .num_cores = 2,
               .num_nodes = 1,
               .instruction_sets = {"avx", "avx2"}};
  facts.cgroup = {.version = 2, .cpus = 1.5, .memory_bytes = std::nullopt};
  facts.memory = {.total_bytes = int64_t{2} << 30, .available_bytes = int64_t{1} << 30};
  facts.shared_memory = {.path = "/dev/shm",
                         .total_bytes = int64_t{64} << 20,
                         .free_bytes = int64_t{32} << 20,
                         .is_writable = true,
                         .trouble = ""};
  facts.gpus.where_asked = "NVML";
  facts.limits = {
      {.name = "open files", .ulimit = "n", .soft = 1024, .hard = 4096},
      {.name = "locked memory", .ulimit = "l", .is_bytes = true, .soft = 8 << 20, .hard = 8 << 20},
      {.name = "processes", .ulimit = "u"}};
  facts.route = {.master = "m", .address = "10.0.0.2", .interface = "eth0", .trouble = ""};
  return facts;
}

TEST(FactsTextTest, ALinePerFact) {
  EXPECT_EQ(
      facts_text(some_machine()),
      "lockstep          1.2.3\n"
      "runtime           lockstep-runtime 1.2.3 (/bin/rt)\n"
      "system            Some System, Linux 6.1\n"
      "cpu               A CPU, x86_64, 2 cores\n"
      "instruction sets  avx avx2\n"
      "cgroup            version 2, 1.5 CPUs, memory without limit\n"
      "memory            2 GiB, 1 GiB available\n"
      "/dev/shm          64 MiB, 32 MiB free\n"
      "gpu               none (no driver; NVML)\n"
      "nccl              none that the loader finds\n"
      "topology          1 NUMA node\n"
      "limits            open files 1024 (hard 4096), locked memory 8 MiB, processes no limit\n"
      "master            m by eth0 (10.0.0.2)\n");
}

TEST(FactsTextTest, WhatIsAbsentIsSaid) {
  MachineFacts facts = some_machine();
  facts.runtime.trouble = "cannot be started";
  facts.cgroup = {};
  facts.cpu.instruction_sets = {};
  facts.shared_memory.trouble = "there is no /dev/shm";
  facts.gpus.trouble = "the driver 1 is loaded, but its library is not here";
  facts.route.trouble = "there is no route";
  const std::string text = facts_text(facts);
  for (const char* line :
       {"runtime           cannot be started (/bin/rt)\n", "cgroup            none\n",
        "instruction sets  none that kernels are made for\n",
        "/dev/shm          there is no /dev/shm\n", "gpu               the driver 1 is loaded",
        "master            there is no route\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  const nlohmann::json object = facts_json(facts);
  EXPECT_TRUE(object["cgroup"]["memoryBytes"].is_null());
  EXPECT_EQ(object["sharedMemory"]["trouble"], "there is no /dev/shm");
  EXPECT_EQ(object["gpu"]["devices"].size(), 0U);
}

TEST(FactsTextTest, MachinesGetAllDigits) {
  MachineFacts facts = some_machine();
  facts.gpus = {.driver = "535.1",
                .gpus = {{.name = "G", .memory_bytes = 1234567890123, .capability = 86}},
                .links = {},
                .trouble = "",
                .where_asked = "NVML"};
  const nlohmann::json object = facts_json(facts);
  EXPECT_EQ(object["memory"]["availableBytes"], int64_t{1} << 30);
  EXPECT_EQ(object["limits"]["open files"]["hard"], 4096);
  EXPECT_TRUE(object["limits"]["processes"]["soft"].is_null());
  EXPECT_EQ(object["gpu"]["devices"][0]["memoryBytes"], 1234567890123);
  EXPECT_EQ(object["gpu"]["devices"][0]["computeCapability"], 8.6);
  EXPECT_EQ(object["gpu"]["driver"], "535.1");
  EXPECT_TRUE(object["nccl"]["version"].is_null());
  EXPECT_EQ(object["cpu"]["numaNodes"], 1);
  EXPECT_EQ(object["master"]["interface"], "eth0");
  EXPECT_THAT(facts_text(facts), HasSubstr("driver 535.1; G, 1.12 TiB\n"));
}

TEST(FactsTextTest, PairsOfGpusAreToldByWhatTheyHaveInCommon) {
  MachineFacts facts = some_machine();
  facts.cpu.num_nodes = 2;
  facts.nccl.version = "2.27.5";
  facts.gpus.gpus.resize(3);
  facts.gpus.links = {{.first = 0, .second = 1, .kind = "NVLink"},
                      {.first = 0, .second = 2, .kind = "SYS"},
                      {.first = 1, .second = 2, .kind = "SYS"}};
  EXPECT_THAT(facts_text(facts),
              HasSubstr("nccl              2.27.5\n"
                        "topology          2 NUMA nodes; GPUs 0-1 by NVLink; 0-2, 1-2 by SYS\n"));
  EXPECT_EQ(facts_json(facts)["gpu"]["links"][1],
            nlohmann::json({{"gpus", {0, 2}}, {"by", "SYS"}}));
  facts.cpu.num_nodes = 0;
  facts.gpus.links = {};
  EXPECT_EQ(topology_text(facts), "NUMA nodes unknown");
}

}  // namespace
}  // namespace lockstep::machine
