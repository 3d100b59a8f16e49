#include "runtime/train/memory_report.h"

#include "runtime/common/metrics.h"
#include "runtime/kernels/float_buffer.h"

namespace lockstep::runtime {

common::MemoryUse memory_now() {
  return {.buffer_bytes = float_buffer_bytes.live.load(),
          .buffer_peak_bytes = float_buffer_bytes.peak.load(),
          .resident_bytes = static_cast<int64_t>(common::resident_bytes()),
          .resident_peak_bytes = static_cast<int64_t>(common::peak_resident_bytes())};
}

void log_memory(const common::Log& log, std::string_view when) {
  const common::MemoryUse memory = memory_now();
  log.info("memory", {{"when", when},
                      {"buffer_bytes", memory.buffer_bytes},
                      {"buffer_peak_bytes", memory.buffer_peak_bytes},
                      {"resident_bytes", memory.resident_bytes},
                      {"resident_peak_bytes", memory.resident_peak_bytes}});
}

}  // namespace lockstep::runtime
