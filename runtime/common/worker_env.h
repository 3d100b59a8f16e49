// The environment of one rank: torchrun's names plus ours (design section 3).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::common {

// LOCKSTEP_OUTPUT_MODE: what to do with an output folder that already holds something.
enum class OutputMode {
  kAuto,       // "auto": an unfinished run resumes as checkpoint.resume says; a finished one is
               // refused, but is a success for later attempts of the run that finished it
  kResume,     // "resume": go on from the newest checkpoint, also of a finished run
  kOverwrite,  // "overwrite": the first attempt of the run starts afresh; later ones resume
};

// LOCKSTEP_DEVICE: what a rank computes on.
enum class DeviceChoice {
  kProcessor,  // "cpu", and unless set
  kGpu,        // "cuda": the GPU with the rank's number in its pod
  kSharedGpu,  // "cuda-shared": the same, but ranks share GPUs where there are fewer
};

struct WorkerEnv {
  int rank = 0;              // RANK
  int world_size = 1;        // WORLD_SIZE
  int local_rank = 0;        // LOCAL_RANK
  int local_world_size = 1;  // LOCAL_WORLD_SIZE
  std::string master_addr;   // MASTER_ADDR
  int master_port = 0;       // MASTER_PORT
  std::string job_path;      // LOCKSTEP_JOB: path of the job's JSON
  int attempt = 0;           // LOCKSTEP_ATTEMPT
  // LOCKSTEP_RUN_ID: tells this run from others of the same job; all its attempts share it. Empty
  // unless set: job name and configuration alone then tell runs apart.
  std::string run_id;
  std::string output;                          // LOCKSTEP_OUTPUT
  OutputMode output_mode = OutputMode::kAuto;  // LOCKSTEP_OUTPUT_MODE
  int metrics_port = 9400;                     // LOCKSTEP_METRICS_PORT; 0 = any free port
  std::string metrics_port_file;  // LOCKSTEP_METRICS_PORT_FILE: where to write that port, if given
  // LOCKSTEP_LISTEN_ADDRESS: where this rank's servers (HTTP, rendezvous) listen; all addresses
  // unless set. A laptop's ranks listen on loopback only.
  std::string listen_address = "0.0.0.0";
  // LOCKSTEP_SHM_DIR: memory that the ranks of one host share, and those of others do not see.
  std::string shm_folder = "/dev/shm";
  // GLOO_SOCKET_IFNAME: whose address peers dial; empty: that of the route to the master.
  std::string network_interface;
  DeviceChoice device = DeviceChoice::kProcessor;
  std::string termination_path;  // LOCKSTEP_TERMINATION_MESSAGE, default /dev/termination-log
  // For the launcher, to which the variables above describe the pod's first rank.
  int ranks_per_pod = 1;   // LOCKSTEP_RANKS_PER_POD
  int grace_seconds = 30;  // LOCKSTEP_GRACE_SECONDS: what ranks may take to stop in good order
};

// Reads and checks the environment through `lookup` (getenv in main, a map in tests).
// Errors are kInvalidArgument and name the variable, what was found and what is expected.
Result<WorkerEnv> read_worker_env(
    const std::function<std::optional<std::string>(const std::string&)>& lookup);

}  // namespace lockstep::common
