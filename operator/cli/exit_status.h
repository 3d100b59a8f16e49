// Exit statuses of `lockstep`. 0 only on success.
#pragma once

namespace lockstep::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // the job failed, something is wrong, or a file was not written
inline constexpr int kUsage = 2;   // wrong command line
inline constexpr int kInvalidFile = 3;     // the manifest has errors; all were printed
inline constexpr int kPartlyRefused = 4;   // imported, but for keys that this version cannot honour
inline constexpr int kDiffer = 5;          // of compare: the runs computed other numbers
inline constexpr int kNoSuchJob = 6;       // no such job or pod in the cluster, or no CRD
inline constexpr int kForbidden = 7;       // the cluster does not let these credentials do it
inline constexpr int kUnreachable = 8;     // no API server answers, or no kubeconfig names one
inline constexpr int kConflict = 9;        // a job of that name is there, or somebody was faster
inline constexpr int kNodesNeverMet = 72;  // of run: the machines of --nodes did not meet
inline constexpr int kNodeLost = 83;    // of run: a machine of --nodes is gone, and the run with it
inline constexpr int kSuspended = 130;  // stopped by Ctrl-C, or a conversation was broken off

}  // namespace lockstep::cli
