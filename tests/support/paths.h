// Where a test finds what was built and what lies in the tree. Each is defined in a source that the
// build writes (lockstep_test_path), so that a tree at another place compiles nothing else anew.
#pragma once

namespace lockstep::support {

extern const char* const kSourceTree;          // folder of the checkout
extern const char* const kRuntimeProgram;      // lockstep-runtime
extern const char* const kEmulatedGpuProgram;  // the same, on an emulated GPU
extern const char* const kFaultyRuntime;       // lockstep-runtime with faults in it (tests/faults)
extern const char* const kCustomJob;           // a rank of a custom loop (tests/runtime/custom)
extern const char* const kFakeNvml;            // library that answers as NVML does
extern const char* const kFakeNccl;            // library that answers as NCCL does, to little
extern const char* const kFakeCudaDriver;      // library that answers as a CUDA driver does
extern const char* const kGpuCheck;            // lockstep-gpu-check

}  // namespace lockstep::support
