// Keeps oneDNN, which computes with OpenMP, to the calling thread.
#pragma once

// From the OpenMP runtime that oneDNN links; declared here because clang brings no omp.h of its
// own.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int num_threads);

namespace lockstep::runtime {

// Limits OpenMP to the calling thread while it lives. The setting belongs to this thread only, so
// nothing else in the process notices.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  const int before_;
};

}  // namespace lockstep::runtime
