#include "operator/machine/examine.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::machine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMi = int64_t{1} << 20;

MachineFacts sound_machine() {
  MachineFacts facts;
  facts.lockstep_version = "1.2.3";
  facts.runtime = {.path = "/bin/lockstep-runtime",
                   .version = "1.2.3",
                   .told = "lockstep-runtime 1.2.3, LibTorch 2",
                   .trouble = ""};
  facts.cpu = {.model = "A CPU",
               .architecture = "x86_64",
               .num_cores = 8,
               .instruction_sets = {"fma", "f16c", "avx2"}};
  facts.memory = {.total_bytes = 8192 * kMi, .available_bytes = 4096 * kMi};
  facts.shared_memory = {.path = "/dev/shm",
                         .total_bytes = 64 * kMi,
                         .free_bytes = 64 * kMi,
                         .is_writable = true,
                         .trouble = ""};
  facts.output = {.path = "runs",
                  .total_bytes = 9999 * kMi,
                  .free_bytes = 999 * kMi,
                  .is_writable = true,
                  .trouble = ""};
  facts.limits = {{.name = "open files", .ulimit = "n", .soft = 1024, .hard = 4096},
                  {.name = "processes", .ulimit = "u"}};
  facts.route = {.master = "127.0.0.1", .address = "127.0.0.1", .interface = "lo", .trouble = ""};
  facts.ports = {{.port = 29500, .why = "MASTER_PORT", .is_free = true}};
  return facts;
}

Needs a_job() {
  return {.file = "job.yaml",
          .ranks = 4,
          .rank_counts = {1, 2, 4, 8},
          .rank_bytes = 500 * kMi,
          .shared_memory_bytes = 8 * kMi,
          .output_bytes = 100 * kMi};
}

TEST(ExamineTest, NothingIsWrongWithASoundMachine) {
  for (const Needs& needs : {Needs{}, a_job()}) {
    const std::vector<Finding> findings = examine(sound_machine(), needs);
    EXPECT_FALSE(is_anything_wrong(findings)) << findings_text(findings);
    EXPECT_THAT(findings_text(findings), HasSubstr("\nnothing is wrong\n"));
    for (const Finding& finding : findings) EXPECT_EQ(finding.next, "") << finding.check;
  }
}

struct Case {
  const char* name;
  std::function<void(MachineFacts&, Needs&)> change;
  const char *check, *text, *next;
};

// One thing is wrong at a time: exactly that is found, with one command.
void expect_findings(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    MachineFacts facts = sound_machine();
    Needs needs = a_job();
    each.change(facts, needs);
    std::vector<Finding> wrong;
    for (const Finding& finding : examine(facts, needs)) {
      if (finding.is_wrong) wrong.push_back(finding);
    }
    ASSERT_EQ(wrong.size(), 1U) << each.name << "\n" << findings_text(wrong);
    EXPECT_EQ(wrong.front().check, each.check) << each.name;
    EXPECT_THAT(wrong.front().text, HasSubstr(each.text)) << each.name;
    EXPECT_EQ(wrong.front().next, each.next) << each.name;
    EXPECT_EQ(wrong.front().next.find('\n'), std::string::npos) << each.name;
  }
}

TEST(ExamineTest, ProgramAndProcessor) {
  expect_findings({
      {"no runtime", [](auto& f, auto&) { f.runtime.trouble = "cannot be started"; }, "runtime",
       "/bin/lockstep-runtime: cannot be started", "make build"},
      {"another version", [](auto& f, auto&) { f.runtime.version = "1.2.2"; }, "runtime",
       "of version 1.2.2, this program of 1.2.3", "make build"},
      {"another architecture", [](auto& f, auto&) { f.cpu.architecture = "aarch64"; },
       "instruction sets", "aarch64", "uname -m"},
      {"no AVX2",
       [](auto& f, auto&) {
         f.cpu.instruction_sets = {"fma", "f16c", "avx"};
       },
       "instruction sets", "no AVX2", "grep -m1 '^flags' /proc/cpuinfo"},
  });
}

TEST(ExamineTest, Gpus) {
  const auto have = [](auto& f, const char* driver, int capability) {
    f.gpus.driver = driver;
    f.gpus.gpus = {{.name = "G", .memory_bytes = kMi, .capability = capability}};
  };
  expect_findings({
      {"a driver that does not answer", [](auto& f, auto&) { f.gpus.trouble = "mismatch"; }, "gpu",
       "mismatch", "nvidia-smi"},
      {"an old driver",
       [&](auto& f, auto& n) {
         have(f, "570.86.10", 90);
         n.on_gpus = true;
       },
       "gpu", "driver 570.86.10; ranks on GPUs need 580", "nvidia-smi"},
      {"an old GPU",
       [&](auto& f, auto& n) {
         have(f, "580.65.06", 75);
         n.on_gpus = true;
       },
       "gpu", "G has compute capability 7.5; ranks on GPUs need 8.0", "nvidia-smi"},
      {"no GPU where one is wanted", [](auto&, auto& n) { n.on_gpus = true; }, "gpu",
       "none; LOCKSTEP_DEVICE is cuda", "nvidia-smi"},
      {"an NCCL that does not answer", [](auto& f, auto&) { f.nccl.trouble = "no version"; },
       "nccl", "no version", "ldconfig -p"},
  });
  struct Told {
    const char* driver;
    int capability;
    const char* told;
  };
  for (const Told& c :
       {Told{"580.65.06", 80, "1 GPU; ranks compute on them where"},
        Told{"", 0, "1 GPU; ranks compute on them where"},
        Told{"570.86.10", 90, "need 580 or newer (CUDA 13.0); ranks compute on the"},
        Told{"580.65.06", 75, "need 8.0 or more; ranks compute on the processor"}}) {
    MachineFacts machine = sound_machine();
    have(machine, c.driver, c.capability);
    const std::string told = findings_text(examine(machine, {}));
    EXPECT_THAT(told, HasSubstr(c.told));
    EXPECT_THAT(told, HasSubstr("\nnothing is wrong\n"));
  }
}

TEST(ExamineTest, CoresAndMemory) {
  expect_findings({
      {"fewer cores than ranks", [](auto& f, auto&) { f.cpu.num_cores = 3; }, "cores",
       "3 for this process, 4 ranks", "lockstep run job.yaml --set ranks=2"},
      {"a quota", [](auto& f, auto&) { f.cgroup.cpus = 0.5; }, "cores",
       "0.5 for this process by its control group", "lockstep run job.yaml --set ranks=1"},
      {"a quota without a job",
       [](auto& f, auto& n) {
         f.cgroup.cpus = 0.5;
         n = {};
       },
       "cores", "a rank wants one", "cat /sys/fs/cgroup/cpu.max"},
      {"a group's limit", [](auto& f, auto&) { f.cgroup.memory_bytes = 1999 * kMi; }, "memory",
       "control group's limit, the job wants 1.95 GiB (4 ranks of 500 MiB)",
       "lockstep estimate job.yaml"},
      {"a group that holds much already",
       [](auto& f, auto&) {
         f.cgroup.memory_bytes = 3000 * kMi;
         f.cgroup.memory_free_bytes = 1999 * kMi;
       },
       "memory", "1.95 GiB left of 2.93 GiB by the control group's limit, the job wants 1.95 GiB",
       "lockstep estimate job.yaml"},
      {"too little free", [](auto& f, auto&) { f.memory.available_bytes = 1999 * kMi; }, "memory",
       "available, the job wants", "lockstep estimate job.yaml"},
      {"too little for any job",
       [](auto& f, auto& n) {
         f.memory.available_bytes = 100 * kMi;
         n = {};
       },
       "memory", "100 MiB available", "free -m"},
      {"a limit too low for any job",
       [](auto& f, auto& n) {
         f.cgroup.memory_bytes = 100 * kMi;
         n = {};
       },
       "memory", "100 MiB by the control group's limit", "cat /sys/fs/cgroup/memory.max"},
  });
}

TEST(ExamineTest, FilesLimitsAndNetwork) {
  expect_findings({
      {"small shared memory", [](auto& f, auto&) { f.shared_memory.free_bytes = 4 * kMi; },
       "/dev/shm", "4 MiB free of 64 MiB, 4 ranks want 8 MiB",
       "mount -o remount,size=64m /dev/shm"},
      {"small for many",
       [](auto& f, auto& n) {
         n.shared_memory_bytes = 100 * kMi;
         f.limits = {};
       },
       "/dev/shm", "want 100 MiB", "mount -o remount,size=200m /dev/shm"},
      {"no shared memory", [](auto& f, auto&) { f.shared_memory.trouble = "there is no /dev/shm"; },
       "/dev/shm", "there is no /dev/shm", "mount -t tmpfs -o mode=1777,size=64m tmpfs /dev/shm"},
      {"shared memory to read only", [](auto& f, auto&) { f.shared_memory.is_writable = false; },
       "/dev/shm", "cannot be written", "chmod 1777 /dev/shm"},
      {"few open files", [](auto& f, auto&) { f.limits[0].soft = 256; }, "open files",
       "at most 256, ranks may want 288", "ulimit -n 4096"},
      {"a hard limit below what is wanted",
       [](auto& f, auto&) { f.limits[0].soft = f.limits[0].hard = 256; }, "open files",
       "at most 256, ranks may want 288, and only root raises the hard limit of 256",
       "sudo prlimit --pid $$ --nofile=288:288"},
      {"a hard limit below the usual",
       [](auto& f, auto&) {
         f.limits[0].soft = 256;
         f.limits[0].hard = 1000;
       },
       "open files", "at most 256, ranks may want 288", "ulimit -n 1000"},
      {"few processes", [](auto& f, auto&) { f.limits[1].soft = 100; }, "processes", "at most 100",
       "ulimit -u 4096"},
      {"output to read only", [](auto& f, auto&) { f.output.is_writable = false; }, "output",
       "runs cannot be written", "ls -ld runs"},
      {"output that is a file", [](auto& f, auto&) { f.output.trouble = "x is no folder"; },
       "output", "runs: x is no folder", "ls -ld runs"},
      {"a full disk", [](auto& f, auto&) { f.output.free_bytes = 99 * kMi; }, "output",
       "99 MiB free, checkpoints and model want 100 MiB", "df -h runs"},
      {"an unknown master", [](auto& f, auto&) { f.route.trouble = "m is not known here"; },
       "master", "m is not known here", "getent ahosts 127.0.0.1"},
      {"an address of no interface", [](auto& f, auto&) { f.route.interface = ""; }, "master",
       "no interface has the address 127.0.0.1", "ip address"},
      {"a port in use", [](auto& f, auto&) { f.ports[0].is_free = false; }, "port 29500",
       "another process holds it (MASTER_PORT)", "ss -ltnp 'sport = :29500'"},
  });
}

TEST(ExamineTest, TheTextHasACommandBehindEachFinding) {
  EXPECT_EQ(
      findings_text({{.check = "a", .is_wrong = false, .text = "is fine", .next = ""},
                     {.check = "long", .is_wrong = true, .text = "is not", .next = "mend it"}}),
      "ok     a     is fine\n"
      "WRONG  long  is not\n"
      "       next: mend it\n"
      "1 finding\n");
}

}  // namespace
}  // namespace lockstep::machine
