// Exit statuses of `lockstep`. 0 only on success.
#pragma once

namespace lockstep::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // the job failed; the first failing rank's reason was printed
inline constexpr int kUsage = 2;   // wrong command line
inline constexpr int kInvalidFile = 3;    // the manifest has errors; all were printed
inline constexpr int kPartlyRefused = 4;  // imported, but for keys that this version cannot honour
inline constexpr int kDiffer = 5;         // of compare: the runs computed other numbers
inline constexpr int kNoSuchJob = 6;      // in the cluster; or no such pod, or no CRD
inline constexpr int kForbidden = 7;      // the cluster does not let these credentials do it
inline constexpr int kUnreachable = 8;    // no API server answers, or no kubeconfig names one
inline constexpr int kConflict = 9;       // a job of that name is there, or somebody was faster
inline constexpr int kSuspended = 130;    // stopped by Ctrl-C

}  // namespace lockstep::cli
